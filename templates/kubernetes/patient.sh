# patient COMMAND...: again where it fails, since a control plane that has just come up, or is on a slow machine, may be away
# for a moment. Its standard input is none.
patient() {
  tries=10
  until "$@" < /dev/null; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 5
  done
}
