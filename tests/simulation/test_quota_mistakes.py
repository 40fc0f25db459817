"""Mistakes in quotas are found by the simulation, and without them no invariant breaks."""

from dataclasses import replace

import pytest

from coordinator.quotas import metering
from coordinator.quotas.enforcement import ClientQuotas
from coordinator_lab.simulation import simulator
from coordinator_lab.simulation.plan import draw
from tests.support.mistakes import assert_breaks, shown_by

pytestmark = pytest.mark.long


def nobody_is_muted(patch):
    patch.setattr(metering, "mute", lambda *_: None)


@shown_by(4)
def everybody_has_the_limit_of_the_default(patch):
    budget = ClientQuotas.budget
    patch.setattr(ClientQuotas, "budget", lambda self, user, _client_id: budget(self, user, "any"))


@pytest.mark.parametrize("mistake", [nobody_is_muted, everybody_has_the_limit_of_the_default])
def test_a_known_mistake_in_quotas_is_caught(mistake, monkeypatch):
    mistake(monkeypatch)
    how = {"quotas_s": 1.0, "acts_s": 0.0, "rules_s": 0.0, "forced_s": 0.0, "share_groups": 0}
    assert_breaks(mistake, "I34", (replace(draw(seed, 20.0), **how) for seed in range(1, 7)))


def test_quotas_break_no_invariant_and_make_clients_wait():
    plan = replace(draw(1, 20.0), quotas_s=1.0)
    report = simulator.run(plan)
    assert (report.broken, report.waits > 0) == (None, True)
