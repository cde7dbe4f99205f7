"""The QEMU command line, networks and cache keys of local machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runcrate_iac.machines.local import image, network, warm
from runcrate_iac.machines.local.command import Memory, Shape, command, devices, direct_boot, seeded_boot
from runcrate_iac.machines.local.image import Image
from runcrate_iac.model.packages import PACKAGES

SHAPE = Shape(memory=1024**3, cpus=2, accelerator="tcg")
IMAGE = Image(Path("/cache/images/k"), "k")
BOOT = direct_boot(SHAPE, IMAGE)


def value(words: list[str], option: str) -> str:
    """The value of the first such option."""
    return words[words.index(option) + 1]


def test_a_clone_waits_for_its_state_on_private_memory() -> None:
    """A clone maps the snapshot's memory privately, so that clones never write into it (C4)."""
    memory = Memory(Path("/cache/warm/k/memory"), shared=False)
    words = command(
        SHAPE, BOOT, Path("/s"), "c.node-0", memory=memory, ssh_port=2200, lan="239.192.0.1:1", incoming=True
    )
    assert value(words, "-object").endswith("size=1024M,mem-path=/cache/warm/k/memory,share=off")
    assert value(words, "-incoming") == "defer"
    assert value(words, "-name") == "guest=c.node-0"


def test_networks_are_reached_from_this_computer_only() -> None:
    """The SSH port and the LAN's socket are bound to the loopback address (X9)."""
    words = command(SHAPE, BOOT, Path("/s"), "c.node-0", ssh_port=2200, lan="239.192.0.1:20000")
    networks = [words[i + 1] for i, word in enumerate(words) if word == "-netdev"]
    assert networks == [
        "user,id=outer,hostfwd=tcp:127.0.0.1:2200-:22",
        "socket,id=lan,mcast=239.192.0.1:20000,localaddr=127.0.0.1",
    ]


def test_every_machine_has_a_generation_id() -> None:
    """The device that tells a clone's kernel to reseed its random state is there, new at every start (C19)."""
    assert "vmgenid,guid=auto" in devices(SHAPE)


def test_a_comma_in_a_path_stays_one_value() -> None:
    """A comma in a folder's name is written twice, as QEMU's option syntax wants."""
    assert "dir=/a,,b/seed," in value(seeded_boot(Path("/a,b/seed")), "-blockdev")


@pytest.mark.parametrize(
    "changed",
    [
        warm.key(replace(IMAGE, key="other"), SHAPE, 8, None, ("QEMU 7", "")),
        warm.key(IMAGE, replace(SHAPE, memory=2 * 1024**3), 8, None, ("QEMU 7", "")),
        warm.key(IMAGE, replace(SHAPE, cpus=1), 8, None, ("QEMU 7", "")),
        warm.key(IMAGE, replace(SHAPE, accelerator="kvm"), 8, None, ("QEMU 7", "")),
        warm.key(IMAGE, SHAPE, 9, None, ("QEMU 7", "")),
        warm.key(IMAGE, SHAPE, 8, None, ("QEMU 8", "")),
        warm.key(IMAGE, SHAPE, 8, None, ("QEMU 7", "flags: avx512f")),
    ],
)
def test_a_snapshot_is_resumed_only_by_what_made_it(changed: str) -> None:
    """Image, memory, CPUs, accelerator, disk, QEMU version and host CPU are each part of the snapshot's key."""
    assert changed != warm.key(IMAGE, SHAPE, 8, None, ("QEMU 7", ""))


def test_the_image_key_follows_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package in the table gives another image."""
    before = image.key()
    monkeypatch.setitem(PACKAGES, image.SUITE, PACKAGES[image.SUITE].model_copy(update={"join": ("tcpdump",)}))
    assert image.key() != before


def test_the_image_holds_what_every_step_needs() -> None:
    """Join, storage and Slurm install nothing on a node of the golden image."""
    needed = {name for names in PACKAGES[image.SUITE].model_dump().values() for name in names}
    assert needed <= set(image.packages())


def test_clusters_have_lans_of_their_own() -> None:
    """Two clusters share neither group nor port, and one cluster always has the same."""
    groups = {network.lan_group(f"c-{number}") for number in range(1000)}
    assert len(groups) == 1000
    assert network.lan_group("c-1") in groups
    assert all(group.startswith("239.19") for group in groups)


def test_nodes_have_addresses_of_their_own() -> None:
    """64 nodes have 64 LAN addresses and 64 MAC addresses."""
    assert str(network.lan_address(1)) == "192.168.177.11/24"
    assert len({network.lan_address(i) for i in range(64)}) == 64
    assert len({network.lan_mac(i) for i in range(64)}) == 64
