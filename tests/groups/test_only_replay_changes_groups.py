"""Only replay changes what the log holds of a group; everything else is in the group's soft state."""

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import coordinator.groups
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.fence import NO_FENCE
from coordinator.groups.share.group import ShareGroup
from coordinator.groups.streams.group import StreamsGroup

GROUPS = Path(coordinator.groups.__file__).parent
GROUP_FILES = [GROUPS / kind / "group.py" for kind in ("epochs", "consumer", "share", "streams")]
REPLAY_FILES = [GROUPS / kind / "replay.py" for kind in ("epochs", "consumer", "share", "streams")]
CONVERSION = GROUPS / "migration" / "upgrade.py"
"""Builds a group of its own, which nobody else sees, and writes it as records."""
OPERATIONS = [
    path
    for kind in ("epochs", "consumer", "share", "streams", "migration")
    for path in sorted((GROUPS / kind).glob("*.py"))
    if path not in [*GROUP_FILES, *REPLAY_FILES, GROUPS / "streams" / "sticky.py"]
]
"""The assignor `sticky` is left out: it never sees a group, and counts in objects of its own."""

DURABLE = {name for kind in (ModernGroup, ConsumerGroup, ShareGroup, StreamsGroup) for name in kind.__slots__} - {
    "soft",
    "group_id",
}
MUTATORS = {
    "put", "drop", "set_group_epoch", "set_target_epoch", "set_target", "set_regex", "set_partition_metadata", "set_topology",
    "set_descriptions", "set_state_partitions", "on_member_removed", "update_reconciled", "recompute_unreconciled",
}  # fmt: skip
CHANGING_CALLS = {"add", "append", "clear", "discard", "extend", "pop", "popitem", "remove", "setdefault", "update"}


def attributes_changed(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Every `x.name` that is assigned, deleted, or whose content is changed in place."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING_CALLS:
            targets = [node.func.value]
        for target in targets:
            while isinstance(target, ast.Subscript):
                target = target.value  # noqa: PLW2901 - the innermost is what changes
            if isinstance(target, ast.Attribute):
                yield target


def is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


@pytest.mark.parametrize("path", OPERATIONS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_operation_changes_nothing_of_a_group_but_its_soft_state(path):
    tree = ast.parse(path.read_text())
    # `self` is never a group here: an update has a `group_epoch` of its own.
    changed = {ast.unparse(node) for node in attributes_changed(tree) if node.attr in DURABLE and not is_self(node)}
    assert not changed


@pytest.mark.parametrize("path", GROUP_FILES, ids=lambda path: path.parent.name)
def test_a_group_changes_itself_in_its_replay_methods_only(path):
    text = path.read_text()
    replay_starts = text[: text.index("    # --- replay -")].count("\n")
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef) and function.name != "__init__" and function.lineno < replay_starts:
            changed = {node.attr for node in attributes_changed(function) if is_self(node)}
            assert not changed & DURABLE, f"{function.name} is not a replay method and changes {changed}"


@pytest.mark.parametrize("path", OPERATIONS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_replay_methods_of_a_group_are_called_by_replay_only(path):
    called = {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS
    }
    assert {
        call for call in called if ".soft." not in call and not call.startswith("super()")
    } == set() or path == CONVERSION


def test_a_lost_soft_state_is_a_new_one():
    """A reload creates the group again: the log has none of its soft state, and an empty one is valid."""
    for kind in (partial(ConsumerGroup, fence=NO_FENCE), StreamsGroup):
        soft = kind("g").soft
        for name in {name for each in type(soft).__mro__ for name in getattr(each, "__slots__", ())}:
            assert not getattr(soft, name), f"{name} of a new group is not empty"


def test_the_stored_half_of_a_classic_group_is_assigned_by_its_replay_only():
    assigning = {
        path.name
        for path in GROUPS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"set_stored", "set_forming"}
        and not is_self(node.func)
    }
    # group.py copies the stored half for a round that starts again.
    assert assigning == {"replay.py", "group.py"}
    changed = {
        (path.name, node.attr)
        for path in GROUPS.rglob("*.py")
        for node in attributes_changed(ast.parse(path.read_text()))
        if node.attr in {"stored", "forming"}
    }
    assert {name for name, _ in changed} == {"group.py"}
