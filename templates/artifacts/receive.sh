# Files come on standard input, each a line `SHA256 BYTES MODE PATH` and then its bytes. A file gets its name only when it is
# whole and its checksum is right. Exit code 3 where that is not so.
set -eu
LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
umask 022
receive() {
  # Until this line nothing but the script is sent, since a shell reads ahead.
  printf '\n%s\n' '--- runcrate-iac receives ---'
  while read -r sum bytes mode path; do
    part=$path.runcrate-part
    trap 'rm -f "$part"' EXIT
    mkdir -p "${path%/*}"
    # With fullblock and count_bytes what comes after this file stays for the next one.
    found=$(dd bs=64K iflag=fullblock,count_bytes count="$bytes" status=none | tee "$part" | sha256sum)
    # Not the last of a pipe, tee can't tell in its exit code that the disk is full.
    written=$(stat -c %s "$part")
    if [ "$written" != "$bytes" ]; then
      echo "$path: $written of $bytes bytes are there" >&2
      return 1
    fi
    if [ "${found%% *}" != "$sum" ]; then
      echo "$path: SHA-256 ${found%% *} came, and $sum is wanted" >&2
      return 3
    fi
    chmod "$mode" "$part"
    mv -f "$part" "$path"
  done
}
receive
exit
