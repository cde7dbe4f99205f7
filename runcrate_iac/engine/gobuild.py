"""Pulumi built from Go modules: for networks where only package registries are in reach."""

from __future__ import annotations

import hashlib
import platform
import shutil
from pathlib import Path

from runcrate_iac.engine.gomodule import opened
from runcrate_iac.engine.launchers import EXECUTOR
from runcrate_iac.engine.versions import ENGINE, LAYOUT
from runcrate_iac.model.progress import Report

MODULE = Path(__file__).parent / "gomod"
_PACKAGE = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
_SDK = "github.com/pulumi/pulumi/sdk/v3"


def key() -> str:
    """What the result depends on, as a short name."""
    digest = hashlib.sha256(f"{LAYOUT} {platform.system()} {platform.machine()}".encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    return f"{ENGINE}-{digest.hexdigest()[:12]}"


def build(into: Path, report: Report) -> None:
    """Put ``pulumi`` and the parts of its Python support that the modules carry into ``into``.

    Raises :class:`~runcrate_iac.errors.ToolMissing` without Go, :class:`~runcrate_iac.errors.Failed` with Go's last
    lines.
    """
    otherwise = ", or Pulumi itself (https://www.pulumi.com/docs/install)"
    with opened(MODULE, f"Pulumi {ENGINE}", report, otherwise=otherwise) as module:
        module.build(_PACKAGE, into / "pulumi", {f"{_SDK}/go/common/version.Version": f"v{ENGINE}"})
        sdk = module.source_of(_SDK)
    for source in (f"cmd/{EXECUTOR}", "dist/pulumi-resource-pulumi-python"):
        copy = into / Path(source).name
        shutil.copyfile(sdk / "python" / source, copy)
        copy.chmod(0o755)
