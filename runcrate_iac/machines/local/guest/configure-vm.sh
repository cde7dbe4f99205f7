#!/bin/sh
# The part of configure.sh that only virtual machines need.
set -eu

echo 'nameserver 10.0.2.3' > /etc/resolv.conf
# noinit_itable: the kernel would write every unused inode table into each node's overlay
echo '/dev/vda / ext4 defaults,noinit_itable 0 1' > /etc/fstab

# Names of cards depend on their slots, so networks are matched by MAC. Every node has its own user-mode network.
cat > /etc/systemd/network/10-outer.network <<'UNIT'
[Match]
MACAddress=52:54:00:72:63:00

[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
LinkLocalAddressing=no
IPv6AcceptRA=no
UNIT

for unit in e2scrub_all.timer e2scrub_reap.service fstrim.timer; do
    systemctl disable --quiet "$unit"
done
