# unblocked: the lines outside our marks; a block that was cut short is no block.
unblocked() {
  awk '
    /^# runcrate-iac begin$/ { held = $0 ORS; inside = 1; next }
    inside { held = held $0 ORS; if (/^# runcrate-iac end$/) { held = ""; inside = 0 }; next }
    NF || NR > 1 { print }
    END { printf "%s", held }'
}
