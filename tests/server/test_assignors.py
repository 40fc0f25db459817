"""A user's assignor is found through its entry point and used by its name."""

import importlib.metadata
from importlib.metadata import EntryPoint

import pytest

from coordinator.groups.assignors.uniform import UniformAssignor
from coordinator.server import CannotStart, assignors


class First:
    """Gives everything to the first member."""

    def assign(self, group):
        return {}


def installed(monkeypatch, **found):
    def entry_points(*, group, name):
        assert group == "coordinator.assignors"
        return [EntryPoint(name, found[name], group)] if name in found else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


def test_a_class_is_instantiated_and_an_object_is_used_as_it_is(monkeypatch):
    installed(monkeypatch, first=f"{__name__}:First", made=f"{__name__}:MADE")
    assert isinstance(assignors.load_assignors(("first",))["first"], First)
    assert assignors.load_assignors(("made",))["made"] is MADE


def test_assignors_are_in_the_order_of_the_configuration(monkeypatch):
    installed(monkeypatch, first=f"{__name__}:First")
    found = assignors.load_assignors(("first", "uniform"))
    assert list(found) == ["first", "uniform"]
    assert isinstance(found["uniform"], UniformAssignor)


@pytest.mark.parametrize("found", [{}, {"first": "no.such.module:X"}, {"first": "builtins:len"}])
def test_a_server_does_not_start_with_a_plugin_that_is_no_assignor(monkeypatch, found):
    installed(monkeypatch, **found)
    with pytest.raises(CannotStart, match=r"group\.consumer\.assignors: first"):
        assignors.load_assignors(("first",))


MADE = First()
