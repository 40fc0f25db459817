"""Message classes are made from specifications that the previous process kept, unless their definitions have changed."""

import json
from pathlib import Path

import pytest

from coordinator.protocol import class_specs, messages
from coordinator.protocol.class_specs import ClassSpecs
from coordinator.protocol.messages import FetchResponse, JoinGroupResponse
from coordinator.protocol.schema import SCHEMAS, SchemaFolder
from coordinator.world.code_cache import CodeCache


@pytest.fixture
def cache(tmp_path) -> CodeCache:
    return CodeCache(tmp_path / "code")


@pytest.fixture
def schemas(tmp_path) -> Path:
    folder = tmp_path / "schemas"
    folder.mkdir()
    for name in ("HeartbeatRequest", "JoinGroupRequest"):
        (folder / f"{name}.json").write_text((SCHEMAS / f"{name}.json").read_text())
    return folder


class Unparsed(SchemaFolder):
    """A folder whose definitions are not parsed."""

    def __getitem__(self, name: str):
        raise AssertionError(f"{name} was parsed")


def test_a_second_process_parses_only_what_has_changed(cache, schemas):
    first = ClassSpecs(SchemaFolder(schemas), cache)
    first_read = {name: first[name] for name in ("HeartbeatRequest", "JoinGroupRequest")}
    assert first.store()
    second = ClassSpecs(Unparsed(schemas), cache)
    assert {name: second[name] for name in first_read} == first_read

    path = schemas / "HeartbeatRequest.json"
    definition = json.loads(path.read_text())
    definition["fields"].append({"name": "More", "type": "int32", "versions": "4+"})
    path.write_text(json.dumps(definition))
    third = ClassSpecs(SchemaFolder(schemas), cache)
    attributes, _ = third["HeartbeatRequest"][2]["HeartbeatRequest"]
    assert attributes[-1] == "more"
    assert third.store()
    assert ClassSpecs(Unparsed(schemas), cache)["HeartbeatRequest"] == third["HeartbeatRequest"]
    assert ClassSpecs(Unparsed(schemas), cache)["JoinGroupRequest"] == first_read["JoinGroupRequest"]


def test_without_a_cache_definitions_are_parsed(schemas):
    uncached = ClassSpecs(SchemaFolder(schemas), CodeCache(None))
    assert uncached["HeartbeatRequest"][0] == 12
    assert not uncached.store()


def test_a_message_without_a_definition_is_refused(cache, schemas):
    with pytest.raises(KeyError):
        ClassSpecs(SchemaFolder(schemas), cache)["SyncGroupRequest"]


def test_the_class_of_a_structure_is_made_once():
    """Also if it is read from a message first."""
    spec = messages.CLASS_SPECS["JoinGroupResponse"]
    top = messages._build("JoinGroupResponse", spec)
    member = top().JoinGroupResponseMember
    assert member is top.JoinGroupResponseMember
    assert (member.__qualname__, member.NAME) == (
        "JoinGroupResponse.JoinGroupResponseMember",
        "JoinGroupResponseMember",
    )
    assert member.__slots__ == JoinGroupResponse.JoinGroupResponseMember.__slots__


def test_a_structure_that_is_a_default_is_made_for_each_message():
    first, second = FetchResponse.PartitionData(), FetchResponse.PartitionData()
    assert type(first.current_leader) is FetchResponse.LeaderIdAndEpoch
    assert first.current_leader == second.current_leader
    assert first.current_leader is not second.current_leader


def test_a_second_process_compiles_no_constructor(cache, schemas, monkeypatch):
    first = ClassSpecs(SchemaFolder(schemas), cache)
    codes = [first.constructor("JoinGroupRequest", name) for name in first["JoinGroupRequest"][2]]
    assert len(codes) == 2
    first.store()
    monkeypatch.setattr(class_specs, "compile", None, raising=False)
    second = ClassSpecs(Unparsed(schemas), cache)
    assert [second.constructor("JoinGroupRequest", name) for name in second["JoinGroupRequest"][2]] == codes
