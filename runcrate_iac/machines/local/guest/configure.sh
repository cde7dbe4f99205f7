#!/bin/sh
# Runs once, in the root file system of an image, when it is built (mmdebstrap --customize-hook); what is of one kind of
# machine comes after it, in configure-vm.sh or configure-container.sh.
set -eu

echo runcrate-image > /etc/hostname
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' > /etc/hosts

useradd --create-home --shell /bin/bash --password '*' runcrate
echo 'runcrate ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/runcrate
chmod 440 /etc/sudoers.d/runcrate

cat > /etc/ssh/sshd_config.d/10-runcrate.conf <<'CONF'
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UseDNS no
CONF
# sshd starts at boot, but never before it has keys of its own; clones must not share any
mkdir -p /etc/systemd/system/ssh.service.d
printf '[Unit]\nConditionPathExists=/etc/ssh/ssh_host_ed25519_key\n' > /etc/systemd/system/ssh.service.d/own-keys.conf
systemctl mask --quiet sshd-keygen.service ssh.socket
rm -f /etc/ssh/ssh_host_* /etc/munge/munge.key /var/lib/systemd/random-seed /var/lib/dbus/machine-id
: > /etc/machine-id

# What the deploys start when they have configured it
for unit in slurmctld slurmd slurmdbd munge mariadb nfs-server nfs-blkmap rpcbind rpcbind.socket rpc-statd-notify nfs-client.target containerd iperf3; do
    systemctl disable --quiet "$unit"
done
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer; do
    systemctl disable --quiet "$unit"
done
# A node has no use for these, and each costs part of a second at boot and at every daemon-reload where there is no KVM
mkdir -p /etc/systemd/system-generators
for generator in gpt-auto hibernate-resume rc-local ssh system-update sysv tpm2; do
    ln -s /dev/null "/etc/systemd/system-generators/systemd-$generator-generator"
done
systemctl mask --quiet systemd-pstore.service modprobe@drm.service ldconfig.service
# `systemctl enable` would run update-rc.d for 6 s, for an init that is not installed
dpkg-divert --quiet --local --rename --add /usr/lib/systemd/systemd-sysv-install
ln -s /bin/true /usr/lib/systemd/systemd-sysv-install

systemctl enable --quiet systemd-networkd nftables ssh runcrate-lease.timer
systemctl set-default --quiet multi-user.target
touch /etc/.updated /var/.updated
apt-get clean
rm -rf /var/lib/apt/lists/*
