"""The simulation catches known mistakes in how a leader's resync is served."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coordinator.groups.classic import resync
from coordinator_lab.simulation.plan import draw
from tests.support.mistakes import Patch, assert_breaks, shown_by

pytestmark = pytest.mark.long


@shown_by(3)
def nobody_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    real = resync.Resync
    patch.setattr(resync, "Resync", lambda *given, **how: real(*given, **how | {"called": {}, "awaited": {}}))


@shown_by(2)
def the_new_assignments_are_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(resync, "completed_generation", lambda group, fence: [])


MISTAKES: Mapping[Patch, str] = {nobody_is_waited_for: "I8", the_new_assignments_are_not_written: "I18"}
"""The mistake -> the promise that breaks."""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_known_mistake_in_resyncs_is_caught(mistake: Patch, monkeypatch: pytest.MonkeyPatch):
    mistake(monkeypatch)
    how: dict[str, Any] = {"groups": 1, "members": 3, "resyncs": 0.3, "kill_s": 5.0, "downtime_s": 0.1}
    how |= {
        "consumer_groups": 0,
        "mixed_groups": 0,
        "streams_groups": 0,
        "acts_s": 0.0,
        "rules_s": 0.0,
        "quotas_s": 0.0,
        "share_groups": 0,
    }
    assert_breaks(mistake, MISTAKES[mistake], (replace(draw(seed, 40.0), **how) for seed in range(1, 21)))
