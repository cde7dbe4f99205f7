"""The golden image: a root file system of distribution packages, its kernel and initial ramdisk; built once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runcrate_iac.machines import lease
from runcrate_iac.machines.local import mmdebstrap, tools
from runcrate_iac.machines.local.cache import made_once
from runcrate_iac.model.packages import PACKAGES
from runcrate_iac.model.progress import Report
from runcrate_iac.paths import cache_dir

SUITE = "trixie"
FILE_SYSTEM = "4G"
"""The file system's size in the image, the smallest disk a machine may have; it grows to the machine's disk."""
WHAT = "golden image"

_BASE = (
    *("systemd", "systemd-sysv", "libpam-systemd", "dbus", "kmod", "procps", "psmisc", "linux-sysctl-defaults"),
    *("openssh-server", "ca-certificates", "curl", "rsync", "less", "vim-tiny", "python3", "locales"),
)
"""No time daemon: a machine's clock follows this computer's, and the join corrects what is left."""
_VM = ("udev", "initramfs-tools", "zstd", "linux-image-cloud-amd64", "qemu-guest-agent", "e2fsprogs")
GUEST = Path(__file__).parent / "guest"
"""Scripts and units that run on the machines."""
SCRIPTS = (GUEST / "configure.sh", GUEST / "configure-vm.sh")
_INITRAMFS = (
    'mkdir -p "$1/etc/initramfs-tools/conf.d"',
    'printf "MODULES=list\\n" > "$1/etc/initramfs-tools/conf.d/runcrate"',
    'printf "virtio_pci\\nvirtio_blk\\next4\\n" > "$1/etc/initramfs-tools/modules"',
)
# The file system is made where the packages were unpacked, whose owners only root or its user namespace can see;
# `download` then carries the result out of that namespace. The bind mount shows the tree without /proc and /sys.
_DISK = (
    'mkdir "$1.tree" && mount --bind "$1" "$1.tree"',
    f'mke2fs -q -t ext4 -m 1 -E lazy_itable_init=1,lazy_journal_init=1 -d "$1.tree" "$1.raw" {FILE_SYSTEM}',
    'umount "$1.tree" && rmdir "$1.tree"',
    'qemu-img convert -O qcow2 "$1.raw" "$1/disk.qcow2"',
    'rm "$1.raw"',
    'cp -L "$1/vmlinuz" "$1/kernel"',
    'cp -L "$1/initrd.img" "$1/initrd"',
)


@dataclass(frozen=True)
class Image:
    """What a machine starts from. Its kernel is started directly, so one that the guest installs is not used."""

    folder: Path
    key: str

    @property
    def disk(self) -> Path:
        """The qcow2 that overlays are based on."""
        return self.folder / "disk.qcow2"

    @property
    def kernel(self) -> Path:
        """The kernel."""
        return self.folder / "kernel"

    @property
    def initrd(self) -> Path:
        """Its initial ramdisk."""
        return self.folder / "initrd"

    def trial_boot(self) -> list[str]:
        """Start the kernel alone; without a disk it ends by saying so."""
        return ["-kernel", str(self.kernel), "-append", "console=ttyS0"]


def packages(more: Iterable[str] = _VM) -> list[str]:
    """The packages of an image: the common base, what every step of a cluster needs, and ``more``."""
    every = PACKAGES[SUITE].model_dump()
    return sorted({*_BASE, *more, *(name for names in every.values() for name in names)})


def key() -> str:
    """The image's name."""
    return digest(SCRIPTS, SUITE, FILE_SYSTEM, packages(), _INITRAMFS, _DISK)


def digest(scripts: Iterable[Path], *inputs: object) -> str:
    """A short name of everything that goes into an image; ``scripts`` configure it."""
    texts = [file.read_text() for file in (*scripts, *lease.UNITS)]
    return hashlib.sha256(json.dumps([*inputs, texts]).encode()).hexdigest()[:16]


def configuring(scripts: Iterable[Path]) -> Iterator[str]:
    """The hooks that bring the lease's units into an image and run ``scripts`` in it, one after the other."""
    yield from (f"upload {unit} /etc/systemd/system/{unit.name}" for unit in lease.UNITS)
    for script in scripts:
        yield from (f"upload {script} /configure.sh", 'chroot "$1" sh /configure.sh', 'rm "$1/configure.sh"')


def golden_image(report: Report) -> Image:
    """The golden image, built where the cache lacks it: two minutes, 1.4 GB.

    Raises :class:`~runcrate_iac.errors.ToolMissing`, or :class:`~runcrate_iac.errors.StepFailed` with the end
    of the build's log.
    """
    image = Image(cache_dir() / "images" / key(), key())
    if not image.folder.exists():
        tools.require(tools.TO_BUILD)
    made_once(image.folder, lambda part: mmdebstrap.run(command(part), part, WHAT, report), WHAT, report)
    return image


def command(target: Path) -> list[str]:
    """The mmdebstrap call that leaves ``disk.qcow2``, ``kernel`` and ``initrd`` in ``target``."""
    hooks = (
        *configuring(SCRIPTS),
        *_DISK,
        *(f"download /{name} {target / name}" for name in ("disk.qcow2", "kernel", "initrd")),
    )
    return mmdebstrap.command(SUITE, packages(), essential_hooks=_INITRAMFS, customize_hooks=hooks)
