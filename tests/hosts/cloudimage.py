"""An image such as users bring, made here since none can be downloaded: boot loader, stock kernel, cloud-init."""

from __future__ import annotations

from pathlib import Path

from runcrate_iac.machines.local import mmdebstrap
from runcrate_iac.machines.local.cache import made_once
from runcrate_iac.model.progress import Report
from runcrate_iac.paths import cache_dir

_PACKAGES = (
    *("systemd", "systemd-sysv", "udev", "dbus", "openssh-server", "sudo", "iproute2", "iputils-ping", "netplan.io"),
    *(
        "cloud-init",
        "linux-image-cloud-amd64",
        "initramfs-tools",
        "grub-pc-bin",
        "grub-common",
        "linux-sysctl-defaults",
    ),
)
_GRUB = "set timeout=0\nmenuentry linux {\n linux /vmlinuz root=/dev/vda1 ro console=ttyS0\n initrd /initrd.img\n}\n"
_GRUB_MODULES = "biosdisk part_msdos ext2 linux normal"
_HOOKS = (
    'echo "/dev/vda1 / ext4 defaults 0 1" > "$1/etc/fstab"',
    'rm -f "$1"/etc/ssh/ssh_host_* && : > "$1/etc/machine-id" && echo nameserver 10.0.2.3 > "$1/etc/resolv.conf"',
    'chroot "$1" systemctl enable --quiet systemd-networkd',
    f'mkdir -p "$1/boot/grub" && printf {_GRUB!r} > "$1/boot/grub/grub.cfg"',
    f'chroot "$1" grub-mkimage -O i386-pc -o /boot/core.img -p "(hd0,msdos1)/boot/grub" {_GRUB_MODULES}',
    'mkdir "$1.tree" && mount --bind "$1" "$1.tree" && truncate -s 3G "$1.raw"',
    'mke2fs -q -t ext4 -E offset=1048576,lazy_itable_init=1,lazy_journal_init=1 -d "$1.tree" "$1.raw" 3144704k',
    'umount "$1.tree" && rmdir "$1.tree"',
    # the master boot record: GRUB's code, one bootable Linux partition from sector 2048 on, and the signature
    'dd status=none conv=notrunc if="$1/usr/lib/grub/i386-pc/boot.img" of="$1.raw" bs=440 count=1',
    r"""printf '\200\0\0\0\203\0\0\0\0\010\0\0\0\370\137\0' | dd status=none conv=notrunc of="$1.raw" bs=1 seek=446""",
    r"""printf '\125\252' | dd status=none conv=notrunc of="$1.raw" bs=1 seek=510""",
    'dd status=none conv=notrunc if="$1/boot/core.img" of="$1.raw" bs=512 seek=1',
    'qemu-img convert -O qcow2 "$1.raw" "$1/cloud.qcow2" && rm "$1.raw"',
)


def cloud_image(report: Report) -> Path:
    """The image's path; built where the cache lacks it."""
    folder = cache_dir() / "images" / "cloud-test"

    def make(part: Path) -> None:
        hooks = (*_HOOKS, f"download /cloud.qcow2 {part}/cloud.qcow2")
        mmdebstrap.run(mmdebstrap.command("trixie", _PACKAGES, customize_hooks=hooks), part, "cloud image", report)

    return made_once(folder, make, "cloud image", report) / "cloud.qcow2"
