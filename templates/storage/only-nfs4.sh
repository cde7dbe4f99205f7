# NFS 4 needs neither rpcbind nor statd, which would listen on every address (rpc.nfsd(8)).
mask_listeners() {
  set -- rpcbind.socket rpcbind.service rpc-statd.service rpc-statd-notify.service
  systemctl mask --quiet --no-reload "$@"
  systemctl stop "$@"
}
[ -L /etc/systemd/system/rpcbind.socket ] || run mask_listeners
