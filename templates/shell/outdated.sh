# outdated PROPERTY UNIT FILE...: whether the unit isn't active, or one of these files is newer than what it has read: a
# script that broke off may have written it, and not come to the restart. PROPERTY: when it read them, which is
# InactiveExitTimestamp, or StateChangeTimestamp where a reload is enough.
outdated() {
  outdated_state=$(systemctl show --timestamp=us+utc -p ActiveState -p "$1" "$2")
  case "$outdated_state" in
    *ActiveState=active* | *ActiveState=reloading*) ;;
    *) return 0 ;;
  esac
  outdated_since=${outdated_state##*Timestamp=}
  shift 2
  [ -n "$(find "$@" -newermt "${outdated_since%%"$newline"*}")" ]
}
