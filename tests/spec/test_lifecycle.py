"""The life of a cluster is one table."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcrate_iac.model.lifecycle import ENDED, TABLE, Happened, State, advance, after_step, before_step, mermaid, start
from runcrate_iac.model.progress import Step

DOCS = Path(__file__).parents[2] / "docs/lifecycle.md"


def test_with_software_the_way_to_ready_is_joined_then_checked() -> None:
    """The states are provisioning, installing, ready (C4, C5, C6)."""
    assert advance(advance(start(), Happened.JOINED), Happened.CHECKED) is State.READY


def test_with_no_software_a_joined_cluster_is_ready_at_once() -> None:
    """The states are provisioning, ready (C5)."""
    assert advance(start(), Happened.JOINED_BARE) is State.READY


@given(st.sampled_from(State), st.sampled_from(Happened))
def test_an_event_that_is_not_in_the_table_is_an_error(state: State, event: Happened) -> None:
    """An event either has its row or raises (C4)."""
    if (state, event) in TABLE:
        assert advance(state, event) is TABLE[state, event]
    else:
        with pytest.raises(ValueError, match=event):
            advance(state, event)


@given(st.sampled_from(State), st.sampled_from(Step), st.booleans(), st.booleans())
def test_a_step_never_asks_for_an_impossible_event(state: State, step: Step, ok: bool, bare: bool) -> None:
    """Whatever step starts or ends in whatever state, the event it means is in the table (C9)."""
    for event in (before_step(state, step), after_step(state, step, ok=ok, bare=bare)):
        assert event is None or (state, event) in TABLE


def test_a_failure_before_the_join_never_degrades() -> None:
    """A failed machine or join leaves `provisioning`: only a release can follow (C8)."""
    for step in (Step.MACHINES, Step.JOIN):
        assert after_step(State.PROVISIONING, step, ok=False, bare=False) is None


def test_a_failure_after_the_join_degrades() -> None:
    """Storage, software or check failing makes `degraded` (C9)."""
    for step in (Step.STORAGE, Step.SOFTWARE, Step.CHECK):
        event = after_step(State.INSTALLING, step, ok=False, bare=False)
        assert event is not None
        assert advance(State.INSTALLING, event) is State.DEGRADED


def test_nothing_leaves_an_ended_cluster() -> None:
    """A terminated cluster has no further event, and a failed one only its release (C8)."""
    assert {event for state, event in TABLE if state in ENDED} == {Happened.RELEASED}


def test_the_diagram_in_the_docs_is_the_table() -> None:
    """The documentation shows the diagram drawn from the table (C4)."""
    assert mermaid() in DOCS.read_text()
