#!/bin/sh
# Submit hello.sbatch to a cluster that is up, wait for it, and show what it printed.
# usage: quickstart.sh path-to-runcrate-iac cluster
set -eu
cli=$1
name=$2
here=$(dirname "$0")

"$cli" ssh "$name" -- 'cat > /shared/hello.sbatch' < "$here/hello.sbatch"
printf '\nA batch job on every node, submitted with sbatch:\n\n'
"$cli" ssh "$name" -- 'cd /shared && sbatch --wait --output=hello.out hello.sbatch && cat hello.out'
printf '\nThe cluster stays up until: %s down %s\n' "$cli" "$name"
