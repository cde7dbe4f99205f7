#!/bin/sh
# Written by runcrate-iac. Files come on standard input, each a line `SHA256 BYTES MODE PATH` and then its bytes. A file gets
# its name only when it is whole and its checksum is right; exit code 3 where it is not.
set -eu
LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
umask 022
while read -r sum bytes mode path; do
  part=$path.runcrate-part
  trap 'rm -f "$part"' EXIT
  mkdir -p "${path%/*}"
  # count_bytes and fullblock: what comes after this file stays for the next one.
  found=$(
    {
      dd bs=64K iflag=fullblock,count_bytes count="$bytes" status=none || echo "$path: reading failed" >&2
    } | { tee "$part" || echo "$path: writing failed" >&2; } | sha256sum
  )
  written=$(stat -c %s "$part")
  if [ "$written" != "$bytes" ]; then
    echo "$path: $written of $bytes bytes were written" >&2
    exit 1
  fi
  if [ "${found%% *}" != "$sum" ]; then
    echo "$path: SHA-256 ${found%% *}, $sum is wanted" >&2
    exit 3
  fi
  chmod "$mode" "$part"
  mv -f "$part" "$path"
done
