"""Two real virtual machines from an image that the user brings."""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runcrate_iac.errors import SpecError
from runcrate_iac.machines.local import LocalProvider, mmdebstrap
from runcrate_iac.machines.local.cache import made_once
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import MachineSpec
from runcrate_iac.paths import cache_dir
from tests.machines import release, reserve

pytestmark = pytest.mark.hosts

CLUSTER = "cloud-test-0001"
_PACKAGES = (
    *("systemd", "systemd-sysv", "udev", "dbus", "openssh-server", "sudo", "iproute2", "iputils-ping", "netplan.io"),
    *("cloud-init", "cloud-guest-utils", "e2fsprogs", "initramfs-tools", "linux-image-cloud-amd64"),
    *("grub-pc-bin", "grub-common", "linux-sysctl-defaults"),
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
    """An image such as users bring, made here since none can be downloaded: boot loader, stock kernel, cloud-init."""
    inputs = hashlib.sha256(repr((_PACKAGES, _HOOKS)).encode()).hexdigest()
    folder = cache_dir() / "images" / f"cloud-{inputs[:16]}"

    def make(part: Path) -> None:
        hooks = (*_HOOKS, f"download /cloud.qcow2 {part}/cloud.qcow2")
        mmdebstrap.run(mmdebstrap.command("trixie", _PACKAGES, customize_hooks=hooks), part, "cloud image", report)

    return made_once(folder, make, "cloud image", report) / "cloud.qcow2"


def tell(message: str, node: str | None) -> None:
    """Shown by pytest where the test fails."""
    print(node or "", message)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Machine]]:
    """Both machines, and their host keys as the provider told them in ``known_hosts`` beside the key."""
    folder = tmp_path_factory.mktemp("cloud")
    key = folder / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    provider = LocalProvider()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNCRATE_IAC_HOME", str(folder / "home"))
        request = Reservation(
            cluster_id=CLUSTER,
            nodes=2,
            machine=MachineSpec(image=str(cloud_image(tell))),
            authorized_keys=(key.with_suffix(".pub").read_text().strip(),),
            identity_file=key,
            deadline=time.time() + 1500,
        )
        try:
            made = list(reserve(provider, request, tell))
            lines = [f"node-{machine.index} {machine.host_key}\n" for machine in made]
            (folder / "known_hosts").write_text("".join(lines))
            yield made
        finally:
            release(provider, CLUSTER, tell)


def ssh(machine: Machine, command: str, user: str = "runcrate") -> str:
    """What ``command`` prints there; the host key is checked strictly."""
    key = Path(str(machine.identity_file))
    options = [
        f"UserKnownHostsFile={key.with_name('known_hosts')}",
        f"HostKeyAlias=node-{machine.index}",
        *("StrictHostKeyChecking=yes", "BatchMode=yes", f"IdentityFile={key}"),
    ]
    words = [word for option in options for word in ("-o", option)]
    login = ["ssh", *words, "-p", str(machine.port), f"{user}@{machine.host}", command]
    return subprocess.run(login, check=True, capture_output=True, text=True, timeout=120).stdout.strip()


def test_cloud_init_gave_users_names_and_root(machines: list[Machine]) -> None:
    """Both users log in with the cluster's key, the login user is root by sudo, and each machine has its name (C2)."""
    assert [ssh(machine, "hostname") for machine in machines] == ["node-0", "node-1"]
    assert ssh(machines[0], "sudo -n id -u") == ssh(machines[0], "id -u", user="root") == "0"


def test_cloud_init_did_all_it_was_told(machines: list[Machine]) -> None:
    """Nothing in the seed is refused by cloud-init, and the file system has the size that was asked."""
    assert ssh(machines[0], "cloud-init status --wait --long | grep -E '^(status|detail)'").startswith("status: done")
    assert int(ssh(machines[0], "df --output=size -BG / | tail -1").strip(" G")) >= 7


def test_the_lan_joins_them(machines: list[Machine]) -> None:
    """A brought image has its address on the cluster's LAN (C15)."""
    assert "2 received" in ssh(machines[0], f"ping -c 2 -W 10 {machines[1].endpoint}")


def test_the_lease_is_armed(machines: list[Machine]) -> None:
    """A brought image powers itself off too, unless it is joined in time (X1)."""
    assert {ssh(machine, "systemctl is-active runcrate-lease.timer") for machine in machines} == {"active"}


def test_a_disk_smaller_than_the_image_is_refused(tmp_path: Path) -> None:
    """An image larger than the disk asked for is refused with the size that would do."""
    image = tmp_path / "large.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(image), "20G"], check=True)
    with pytest.raises(SpecError, match=r"machine\.disk: 8\.0GiB is less than the 20\.0 GiB"):
        LocalProvider().offers(MachineSpec(image=str(image)), 2)


def test_what_is_no_qcow2_is_refused(tmp_path: Path) -> None:
    """Another format is refused with the command that converts it."""
    image = tmp_path / "image.raw"
    image.write_bytes(b"\0" * 4096)
    with pytest.raises(SpecError, match="qemu-img convert -O qcow2"):
        LocalProvider().offers(MachineSpec(image=str(image)), 2)
