"""Providers by name. Each is imported when it is asked for, so that nobody pays for the others."""

from __future__ import annotations

from collections.abc import Callable

from runcrate_iac.errors import SpecError
from runcrate_iac.machines.provider import Provider


def _local() -> Provider:
    from runcrate_iac.machines.local import LocalProvider  # noqa: PLC0415

    return LocalProvider()


def _given() -> Provider:
    from runcrate_iac.machines.given import GivenProvider  # noqa: PLC0415

    return GivenProvider()


PROVIDERS: dict[str, Callable[[], Provider]] = {"local": _local, "given": _given}


def provider(name: str) -> Provider:
    """The provider of that name.

    Raises :class:`SpecError` with the names there are.
    """
    if name not in PROVIDERS:
        raise SpecError(f"provider: there is none called {name!r}", "one of " + ", ".join(PROVIDERS))
    return PROVIDERS[name]()
