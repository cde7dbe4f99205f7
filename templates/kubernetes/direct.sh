# kubeadm and kubectl talk to the cluster itself. A site's proxy (/etc/environment) is for the outside; kubeadm would tell the
# control plane of it, too.
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
