# The node's side of every script. Processes are dear on slow machines, so there are few: files are compared by checksum,
# all at once. Nothing is changed where $dry is set. What is printed is what differs, and nothing else.
set -eu
LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
umask 022
newline='
'
differing=$newline known=$newline

# note WHAT: this differs from what is wanted.
note() {
  echo "$1"
  differing=$differing$1$newline
}

# differs WHAT...: whether one of these differed.
differs() {
  for what; do
    case "$differing" in *"$newline$what$newline"*) return 0 ;; esac
  done
  return 1
}

# run COMMAND...: do something that is needed.
run() {
  note "$*"
  [ -n "${dry-}" ] || "$@"
}

# know FILE...: remember what these are now, for put and block.
know() {
  known=$newline$(
    stat -c '%n %a:%U' "$@" 2> /dev/null || :
    sha256sum "$@" 2> /dev/null || :
  )$newline
}

is_known() {
  case "$known" in *"$newline$1$newline"*) return 0 ;; esac
  return 1
}

# put FILE MODE OWNER SHA256 TEXT: the text becomes its content, at once or not at all; its mode is set, and never what some
# umask leaves (G15).
put() {
  if is_known "$1 $2:$3" && is_known "$4  $1"; then return 0; fi
  note "$1"
  keep file "$1"
  if [ -z "${dry-}" ]; then
    begin_file "$1" "$2"
    printf '%s' "$5" > "$1.new"
    end_file "$1" "$2" "$3"
  fi
}

# block FILE MODE OWNER LINES: these lines are in it, between our marks; every other line stays the user's.
block() {
  text="# runcrate-iac begin$newline$4$newline# runcrate-iac end"
  old=
  if [ -f "$1" ]; then old=$(cat "$1"); fi
  case "$newline$old$newline" in
    *"$newline$text$newline"*) if is_known "$1 $2:$3"; then return 0; fi ;;
  esac
  note "$1"
  keep block "$1"
  if [ -z "${dry-}" ]; then
    begin_file "$1" "$2"
    { printf '%s\n' "$old" | unblocked; printf '%s\n' "$text"; } > "$1.new"
    end_file "$1" "$2" "$3"
  fi
}

# keep KIND PATH...: note what is there before it is changed for the first time, where the machine is to be left as it was
# (`leave`). KIND: `block` where the user has lines in it too, `hosts` and `hostname` for those two, else `file`.
before=/var/lib/runcrate/before
keep() {
  if [ -n "${dry-}" ] || [ ! -d $before ]; then return 0; fi
  keep_kind=$1
  shift
  if [ -z "${kept-}" ]; then
    kept=$newline$(cut -d ' ' -f 3- $before/list)$newline
  fi
  for keep_path; do
    case "$kept" in *"$newline$keep_path$newline"*) continue ;; esac
    if [ -d "$keep_path" ] && [ ! -L "$keep_path" ]; then
      mkdir -p "$before/tree$keep_path"
      chmod --reference="$keep_path" "$before/tree$keep_path"
      chown --reference="$keep_path" "$before/tree$keep_path"
      keep_line "$keep_kind" there "$keep_path"
    elif [ -e "$keep_path" ] || [ -L "$keep_path" ]; then
      [ -d "$before/tree${keep_path%/*}" ] || mkdir -p "$before/tree${keep_path%/*}"
      cp -a "$keep_path" "$before/tree$keep_path"
      keep_line "$keep_kind" there "$keep_path"
    else
      keep_line "$keep_kind" absent "$keep_path"
      keep_path=${keep_path%/*}
      # The folders that it will be in.
      while [ -n "$keep_path" ] && [ ! -d "$keep_path" ]; do
        keep_line file absent "$keep_path"
        keep_path=${keep_path%/*}
      done
    fi
  done
}

keep_line() { # KIND there|absent PATH
  case "$kept" in *"$newline$3$newline"*) return 0 ;; esac
  echo "$1 $2 $3" >> $before/list
  kept=$kept$3$newline
}

# begin_file FILE MODE: FILE.new is written next, and is nobody else's to read where FILE is not.
begin_file() {
  [ -d "${1%/*}" ] || mkdir -p "${1%/*}"
  [ ! -e "$1.new" ] || rm -f "$1.new"
  case $2 in *44 | *55) ;; *) umask 077 ;; esac
}

# end_file FILE MODE OWNER: FILE.new takes its place. No process for what its making has done.
end_file() {
  umask 022
  case $2 in 600 | 644) ;; *) chmod "$2" "$1.new" ;; esac
  [ "$3" = root ] || chown "$3" "$1.new"
  # In a container the file may be a mount, which can't be replaced, only written.
  mv -f "$1.new" "$1" 2> /dev/null || { cat "$1.new" > "$1" && rm -f "$1.new"; }
}

{% include "shell/unblocked.sh" %}

# reread UNIT...: after a change, have systemd read its units again if it holds old ones of these. That takes seconds on a
# slow machine, and a unit that it never had in memory needs none.
reread() {
  case "$(systemctl show -P NeedDaemonReload "$@")" in *yes*) run systemctl daemon-reload ;; esac
}

# packages NAME...: install those that are missing; a held lock is waited for and never broken (F8).
packages() {
  have=$newline$(dpkg-query -W -f='${db:Status-Status}:${Package}\n' "$@" 2> /dev/null || :)$newline
  missing=
  for package; do
    case "$have" in
      *"${newline}installed:$package$newline"*) ;;
      *) missing="$missing $package" ;;
    esac
  done
  [ -z "$missing" ] || run install_packages $missing
}

install_packages() {
  apt_get install "$@" && return
  # What a power cut broke off.
  if [ -n "$(dpkg --audit)" ] || [ -n "$(ls /var/lib/dpkg/updates)" ]; then
    DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold --configure -a 1>&2 < /dev/null || :
    apt_get install "$@" && return
  fi
  # The lists are missing or old. Their lock has no waiting of its own; any other failure may be of a source that isn't
  # needed here, and the install says whether it is.
  tries=90
  until said=$(apt_get update 2>&1); do
    printf '%s\n' "$said" >&2
    case "$said" in
      *'Could not get lock'* | *'Unable to lock'*) ;;
      *) break ;;
    esac
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 10
  done
  apt_get install "$@"
}

# Standard input is our own script, which a question of some package would take for the answer: none is asked, a
# configuration file that was changed stays, and nothing that is there is removed.
apt_get() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=900 -o APT::Install-Recommends=false \
    -o APT::Get::Remove=false -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@" 1>&2 < /dev/null
}
