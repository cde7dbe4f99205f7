"""How long a cluster takes, where the time goes, and what it costs beside the nodes' own work.

    python bench/up.py [--software slurm]

One run, ratios in it: absolute seconds depend on the computer. `by hand` is what the slowest node's own commands took,
step by step, over open connections, plus the start of the machines: a person who types the very same commands and
waits for nothing else can't be faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

RUN = (sys.executable, "-c", "from runcrate_iac.cli import main; main()")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--software", default="slurm")
    parser.add_argument("--nodes", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["RUNCRATE_IAC_HOME"] = home
        spec = Path(home) / "bench.yaml"
        spec.write_text(yaml.safe_dump({"name": "bench", "nodes": asked.nodes, "software": asked.software}))
        warm_up(spec)
        first = timed("up", str(spec), "--yes")
        second = timed("up", str(spec), "--yes")
        events = json.loads(run("events", "bench", "--json"))
        down = timed("down", "bench", "--yes")
    show([event["data"] for event in events if event["type"] == "step_ended"], first, second, down)


def warm_up(spec: Path) -> None:
    """Make the image and its warm start, if the cache lacks them: they are built once and not measured here."""
    code = (
        "import sys; from runcrate_iac.machines.registry import provider; from runcrate_iac.specfile import load; "
        "provider('local').prepare(load(sys.argv[1]).machine, lambda message, node: None)"
    )
    subprocess.run([sys.executable, "-c", code, str(spec)], check=True)


def run(*words: str) -> str:
    """Run a command of ours; its standard output."""
    return subprocess.run(
        [*RUN, *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def timed(*words: str) -> float:
    """The seconds of a command of ours."""
    begun = time.monotonic()
    run(*words)
    return time.monotonic() - begun


def show(steps: list[dict[str, Any]], first: float, second: float, down: float) -> None:
    """Print the table."""
    hand = 0.0
    print(f"{'step':10} {'seconds':>8} {'of up':>6} {'slowest node':>13}")
    for step in steps:
        own = max(step["busy"].values(), default=step["seconds"])
        hand += own
        print(f"{step['step']:10} {step['seconds']:8.1f} {step['seconds'] / first:6.0%} {own:13.1f}")
    rest = first - sum(step["seconds"] for step in steps)
    print(f"{'Pulumi':10} {rest:8.1f} {rest / first:6.0%}")
    print(f"\nup to ready    {first:6.1f} s, {first / hand:.2f} times by hand ({hand:.1f} s)")
    print(f"second up      {second:6.1f} s, {second / first:.2f} of the first")
    print(f"down           {down:6.1f} s, {down / first:.2f} of the first")


if __name__ == "__main__":
    main()
