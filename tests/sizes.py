"""File sizes as a rule: the median of all Python files at most 90 lines, nine of ten at most 250, none over 400."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

MEDIAN, NINE_OF_TEN, LONGEST = 90, 250, 400


def main() -> int:
    """Print the figures; exit 1 where a limit is passed."""
    names = subprocess.run(["git", "ls-files", "*.py"], check=True, capture_output=True, text=True).stdout.split()
    lines = {name: sum(1 for line in Path(name).read_text().splitlines() if line.strip()) for name in names}
    median = statistics.median(lines.values())
    tenth = statistics.quantiles(lines.values(), n=10)[8]
    longest = max(lines, key=lambda name: lines[name])
    print(
        f"{len(lines)} files: median {median:.0f}, nine of ten under {tenth:.0f}, longest {lines[longest]} ({longest})"
    )
    return int(median > MEDIAN or tenth > NINE_OF_TEN or lines[longest] > LONGEST)


if __name__ == "__main__":
    sys.exit(main())
