# Runs as root in a fresh clone, before its sshd answers. Prints the SSH host key. Set in front of it:
# shellcheck disable=SC2154
: "$now" "$node" "$mac" "$address" "$keys" "$lease"

date -s "@$now" > /dev/null

# Two clones of one snapshot share their random state until the kernel has seen the new generation id (vmgenid)
tries=0
until dmesg | grep -q 'crng reseeded due to virtual machine fork'; do
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] || { echo 'the kernel was not told to reseed its random state (vmgenid)' >&2; exit 1; }
    sleep 0.1
done

tr -d - < /proc/sys/kernel/random/uuid > /etc/machine-id
ssh-keygen -q -t ed25519 -N '' -C '' -f /etc/ssh/ssh_host_ed25519_key
echo "$node" > /etc/hostname
hostname "$node"
printf '127.0.0.1 localhost\n127.0.1.1 %s\n::1 localhost ip6-localhost ip6-loopback\n' "$node" > /etc/hosts

cat > /etc/systemd/network/20-lan.network << UNIT
[Match]
MACAddress=$mac

[Network]
Address=$address
LinkLocalAddressing=no
IPv6AcceptRA=no
UNIT
networkctl reload

for home in /root /home/runcrate; do
    install -d -m 700 "$home/.ssh"
    printf '%s\n' "$keys" > "$home/.ssh/authorized_keys"
done
chown -R runcrate: /home/runcrate/.ssh

mkdir -p /etc/runcrate
echo "$lease" > /etc/runcrate/lease
systemctl start ssh.service runcrate-lease.timer
# The journal's folder has the name of the machine-id that journald read when it started; nobody has to wait for it
(
    systemctl restart systemd-journald.service
    find /var/log/journal -mindepth 1 -maxdepth 1 ! -name "$(cat /etc/machine-id)" -exec rm -r {} +
) < /dev/null > /dev/null 2>&1 &
cat /etc/ssh/ssh_host_ed25519_key.pub
