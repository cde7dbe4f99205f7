"""Build the wheel, install it in an environment of its own, and see that it stands alone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROBE = """
from runcrate_iac.paths import PACKAGE, bundled
from runcrate_iac import Cluster, Machine, read_spec
assert "site-packages" in str(PACKAGE), PACKAGE
for name, file in (("deploys", "mesh.py"), ("templates", "slurm"), ("stacks", "local-slurm/Pulumi.yaml")):
    assert (bundled(name) / file).exists(), bundled(name) / file
print("the wheel has its deploys, templates and stacks, and the public names import")
"""


def run(*command: str | Path) -> None:
    """Run it outside the checkout, so that only what is installed can be imported."""
    subprocess.run([str(word) for word in command], check=True, cwd=tempfile.gettempdir())


def main() -> None:
    """Raise where any of it fails."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT)
        (wheel,) = Path(folder).glob("*.whl")
        venv.create(Path(folder) / "env", with_pip=True)
        python = Path(folder) / "env/bin/python"
        run(python, "-m", "pip", "install", "--quiet", wheel)
        run(python, "-c", PROBE)
        run(python.with_name("runcrate-iac"), "--help")
    print(f"{wheel.name}: 1 passed, 0 failed")


if __name__ == "__main__":
    main()
