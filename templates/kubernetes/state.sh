# What this node has of the cluster. Changes nothing.
read -r mtu < /sys/class/net/wg-runcrate/mtu
echo "mtu $mtu"
[ ! -e /etc/kubernetes/runcrate ] || echo 'done yes'
[ ! -e /etc/kubernetes/pki/ca.crt ] || sha256sum < /etc/kubernetes/pki/ca.crt | sed 's/^/ca /'
for file in /var/lib/runcrate/images/*.imported; do
  [ ! -e "$file" ] || { read -r sum < "$file" && echo "image ${file##*/} $sum"; }
done
