"""How many examples the tests of properties try: `pytest --hypothesis-profile=rehearse` tries two thousand."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("default", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("rehearse", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile("default")
