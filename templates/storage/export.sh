# The head's side of /shared, after its files: a directory exported by NFS 4 to the private network, and to nothing else.
share() {
  mkdir -p /shared
  chmod 1777 /shared
}
[ "$(stat -c %a /shared 2> /dev/null)" = 1777 ] || run share
{% include "storage/only-nfs4.sh" %}

unit=/etc/systemd/system/nfs-server.service.d/runcrate.conf
{% include "shell/outdated.sh" %}
! differs $unit mask_listeners || reread nfs-server.service rpcbind.socket
[ -e /etc/systemd/system/multi-user.target.wants/nfs-server.service ] ||
  run systemctl add-wants --quiet --no-reload multi-user.target nfs-server.service
set -- $unit /etc/exports.d/runcrate.exports /etc/nfs.conf.d/runcrate.conf
if differs "$@"; then
  run systemctl restart nfs-server.service
elif outdated InactiveExitTimestamp nfs-server.service "$@"; then
  reread nfs-server.service
  run systemctl restart nfs-server.service
fi
