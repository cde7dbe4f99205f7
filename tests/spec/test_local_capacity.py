"""Whether local machines fit, decided before anything is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ByteSize

from runcrate_iac.errors import SpecError
from runcrate_iac.machines.local import LocalProvider, capacity, image
from runcrate_iac.machines.local.capacity import GIB, Room
from runcrate_iac.model.money import FREE
from runcrate_iac.model.spec import Kind, MachineSpec

PLENTY = 1024 * GIB


def machine(memory: int) -> MachineSpec:
    """A machine with so many bytes of memory."""
    return MachineSpec(memory=ByteSize(memory))


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_too_little_memory_names_field_need_and_rest() -> None:
    """Machines that do not fit into memory are refused with what is asked, what is free and what would fit (C1)."""
    with pytest.raises(SpecError) as refused:
        capacity.check(machine(4 * GIB), 2, Room(memory=6 * GIB, disk=PLENTY))
    assert refused.value.message.startswith("machine.memory: 2 machines of 4.0 GiB need 9.1 GiB")
    assert "6.0 GiB are free" in refused.value.message
    assert refused.value.remedy == "ask for fewer machines, or for memory: 2496MiB"


def test_the_remedy_for_memory_fits() -> None:
    """The memory that the refusal proposes is accepted."""
    free = Room(memory=6 * GIB, disk=PLENTY)
    capacity.check(machine(2496 * 1024**2), 2, free)
    with pytest.raises(SpecError, match=r"machine\.memory"):
        capacity.check(machine(2497 * 1024**2), 2, free)


def test_too_many_machines_are_told_how_many_fit() -> None:
    """Where even the smallest machines do not fit, the refusal says how many would."""
    with pytest.raises(SpecError, match="has room for 4 machines of 512MiB"):
        capacity.check(MachineSpec(), 64, Room(memory=4 * GIB, disk=PLENTY))


def test_too_little_disk_names_the_folder(tmp_path: Path) -> None:
    """A disk too full for what nodes write is refused before an image is built (C1)."""
    with pytest.raises(SpecError, match=rf"machine\.disk: 2 machines need 9.0 GiB on the disk of {tmp_path}/home"):
        capacity.check(MachineSpec(), 2, Room(memory=PLENTY, disk=8 * GIB))


def test_a_disk_that_could_never_be_filled_is_refused() -> None:
    """A machine's disk larger than all that is free is refused though disks are sparse, naming the field (X9)."""
    with pytest.raises(SpecError, match=r"machine\.disk: 100\.0 GiB are asked for each machine, 50\.0 GiB are free"):
        capacity.check(MachineSpec(disk=ByteSize(100 * GIB)), 2, Room(memory=64 * GIB, disk=50 * GIB))


def test_refusal_makes_nothing(tmp_path: Path) -> None:
    """A request that does not fit leaves no folder behind."""
    with pytest.raises(SpecError, match=r"machine\.memory"):
        LocalProvider().offers(machine(PLENTY), 64)
    assert list(tmp_path.iterdir()) == []


def test_bare_metal_is_not_offered() -> None:
    """A kind of machine that this computer can't be is refused by name, not replaced (C3)."""
    with pytest.raises(SpecError, match=r"machine\.kind: bare_metal is not offered"):
        LocalProvider().offers(MachineSpec(kind=Kind.BARE_METAL), 2)


def test_the_offer_is_free_and_says_simulated() -> None:
    """Local machines cost nothing, and their GPUs are called simulated (C3)."""
    (offer,) = LocalProvider().offers(MachineSpec(gpus=4), 2)
    assert offer.price == FREE
    assert (offer.gpus_simulated, offer.gpus_per_machine, offer.machines) == (True, 4, 2)


def test_an_image_that_is_not_there_is_refused() -> None:
    """The path of a brought image is looked at before anything is made."""
    with pytest.raises(SpecError, match=r"machine\.image: there is no file /nowhere"):
        LocalProvider().offers(MachineSpec(image="/nowhere.qcow2"), 2)


def test_building_as_a_user_needs_no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root the image is built in a user namespace."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "--mode=unshare" in image.command(Path("/t"))
