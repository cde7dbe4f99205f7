"""Every version that the Pulumi engine is pinned to. ``gomod/`` names the same one; a test compares them."""

from __future__ import annotations

ENGINE = "3.274.1"
"""The Pulumi CLI that is downloaded or built."""

OLDEST_ENGINE = (3, 272, 0)
"""A ``pulumi`` found on PATH is used from here on, below 4: not older than the Python SDK that drives it."""

COMMAND_PLUGIN = "1.2.1"
"""The plugin of PyPI's ``pulumi-command``, for a real engine that has not fetched it yet."""

LAYOUT = 1
"""Raised when what is put beside a built engine changes, so that older builds are made anew."""
