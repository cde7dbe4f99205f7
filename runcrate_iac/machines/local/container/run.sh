#!/bin/sh
# Runs one container machine until it powers off: run.sh MARK IMAGE NAMESPACE, in the machine's folder. It is the first
# process of PID and mount namespaces of its own, so that its end is the end of every process and mount below it.
set -eu
mark=$1 image=$2 namespace=$3

# Relative names, since an option of overlayfs can't hold every path
mkdir -p lower root upper work
mount --bind "$image" lower
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root
mkdir -p /run/systemd/nspawn
mount -t tmpfs tmpfs /run/systemd/nspawn

# A cgroup to give away. Where systemd runs, the scope that we are in is one (--property=Delegate=yes).
if [ ! -d /run/systemd/system ]; then
    mounted=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    cgroup=$(sed -n 's/^0:://p' /proc/self/cgroup)/runcrate-$mark
    echo "$cgroup" > cgroup
    mkdir -p "$mounted/$cgroup"
    echo 0 > "$mounted/$cgroup/cgroup.procs"
fi

# The container sees cgroup v2 alone, whatever else this computer has: newer systemd runs on nothing else
export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
code=133
while [ "$code" -eq 133 ]; do # the exit code by which nspawn says that the container rebooted
    code=0
    # Connections that were cut keep the network of the run before alive for a minute or two, and its cable by that name
    ip -n "$namespace" link delete "vb-$mark" 2> /dev/null || :
    nsenter --net="/run/netns/$namespace" systemd-nspawn --quiet --register=no --keep-unit --machine="$mark" \
        --directory=root --network-bridge=lan --link-journal=no --resolv-conf=off --timezone=off --boot || code=$?
done
exit "$code"
