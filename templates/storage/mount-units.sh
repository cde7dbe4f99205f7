# A worker's side of /shared, after its files and up to the mount itself, which needs the head's export.
{% include "storage/only-nfs4.sh" %}

! differs /etc/systemd/system/shared.mount /etc/systemd/system/shared.automount || reread shared.mount shared.automount
[ -e /etc/systemd/system/remote-fs.target.wants/shared.automount ] ||
  run systemctl add-wants --quiet --no-reload remote-fs.target shared.automount
