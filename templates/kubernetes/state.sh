# What this node has of the cluster. Changes nothing.
read -r mtu < /sys/class/net/wg-runcrate/mtu
echo "mtu $mtu"
[ ! -e /etc/kubernetes/runcrate ] || echo 'done yes'
[ ! -e /etc/kubernetes/pki/ca.crt ] || sha256sum < /etc/kubernetes/pki/ca.crt | sed 's/^/ca /'
for file in /var/lib/runcrate/images/*.imported; do
  [ ! -e "$file" ] || { read -r sum < "$file" && echo "image ${file##*/} $sum"; }
done
if [ -e /etc/kubernetes/runcrate ] && [ -e /etc/kubernetes/admin.conf ]; then
  timeout 60 kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes -o name 2> /dev/null | sed 's|^node/|node |'
fi
