# Who holds a lock of the package manager (F8): the kernel's list says so to everybody, by the files' inodes.
set -- $(stat -c %i /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock /var/cache/apt/archives/lock \
  2> /dev/null)
while read -r _ _ _ kind process file _; do
  case " $* " in
    *" ${file##*:} "*)
      read -r program 2> /dev/null < "/proc/$process/comm" || program=unknown
      [ "$kind" != WRITE ] || echo "locked process $process ($program)"
      ;;
  esac
done < /proc/locks
