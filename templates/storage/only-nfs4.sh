# NFS 4 needs neither rpcbind nor statd, which would listen on every address (rpc.nfsd(8)).
if [ ! -L /etc/systemd/system/rpcbind.socket ]; then
  run systemctl mask --quiet --now rpcbind.socket rpcbind.service rpc-statd.service rpc-statd-notify.service
fi
