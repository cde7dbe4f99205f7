# patient COMMAND...: again for four minutes where it fails or hangs, since a control plane that has just come up, or is on a
# slow machine, may be away for a moment. Its standard input is none; what it said last is told.
patient() {
  patience=$(($(date +%s) + 240))
  until said=$(timeout 120 "$@" 2>&1 < /dev/null); do
    if [ "$(date +%s)" -ge $patience ]; then
      printf '%s\n' "${said:-no answer in 120 s: $*}" >&2
      return 1
    fi
    sleep 5
  done
}
