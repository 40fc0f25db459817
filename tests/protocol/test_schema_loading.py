"""Definitions are checked when they are read, and what was made from them is up to date."""

import ast
import json
from pathlib import Path

import pytest

from coordinator.protocol import messages, stubs
from coordinator.protocol.schema import (
    SCHEMAS,
    Fresh,
    SchemaError,
    SchemaFolder,
    Versions,
    attribute_name,
    parse_definition,
)


def definition(*fields: dict, **changes: object) -> dict:
    base = {"apiKey": 1, "type": "request", "name": "XRequest", "validVersions": "0-2", "flexibleVersions": "1+"}
    return {**base, "fields": list(fields), **changes}


def test_the_stub_has_every_class_with_the_fields_of_its_constructor():
    """What type checkers read about the classes is what the classes are."""
    stub = {each.name: each for each in ast.parse(stubs.render(SchemaFolder())).body if isinstance(each, ast.ClassDef)}
    assert set(stub) == {"Message", "Request", *SchemaFolder().names}
    for name in SchemaFolder().names:
        fields = [each.target.id for each in stub[name].body if isinstance(each, ast.AnnAssign)]
        assert fields == list(messages.message_class(name).__slots__)


def test_every_definition_file_is_read():
    """Each file defines the message that it is named after, dialects included."""
    folder = SchemaFolder()
    assert len(folder.names) > 100
    for name in folder.names:
        assert folder[name].name == name
    for dialect in (path.name for path in (SCHEMAS / "dialects").iterdir()):
        overriding = SchemaFolder(dialect=dialect)
        for path in (SCHEMAS / "dialects" / dialect).glob("*.json"):
            assert overriding[path.stem] != folder[path.stem]


def test_a_dialect_adds_no_fields():
    """Classes are shared, so a dialect may only move and retype what the message has."""
    for dialect in (path.name for path in (SCHEMAS / "dialects").iterdir()):
        overriding = SchemaFolder(dialect=dialect)
        for path in (SCHEMAS / "dialects" / dialect).glob("*.json"):
            for structure in overriding[path.stem].structures.values():
                top = messages.message_class(path.stem)
                known = getattr(top, structure.name, top).__slots__
                assert {field.attribute for field in structure.fields} <= set(known)


def test_null_by_default_and_the_bare_null():
    """The string "null" is null; a bare null is the empty value."""
    array = {"type": "[]int32", "versions": "0+", "nullableVersions": "0+"}
    parsed = parse_definition(
        definition(
            {"name": "Said", **array, "default": "null"},
            {"name": "Bare", **array, "default": None},
            {"name": "Plain", **array},
        )
    )
    assert [field.default for field in parsed.root.fields] == [None, Fresh.LIST, Fresh.LIST]


def test_an_unstable_latest_version_is_not_supported():
    """Kafka does not support it unless configured to."""
    parsed = parse_definition(definition(latestVersionUnstable=True))
    assert parsed.versions == Versions(0, 1)
    assert SchemaFolder()["InitProducerIdRequest"].versions.highest == 5


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (definition({"name": "A", "type": "Unknown", "versions": "0+"}), "unknown type Unknown"),
        (definition({"name": "A", "type": "int32", "versions": "zero"}), "versions 'zero'"),
        (definition({"name": "A", "type": "int32", "versions": "3-1"}), "end before they start"),
        (definition({"name": "A", "type": "int32", "versions": "0+", "tag": 1}), "needs both"),
        (
            definition({"name": "A", "type": "int32", "versions": "0+", "taggedVersions": "0+", "tag": 1}),
            "tagged in version 0, which is not flexible",
        ),
        (definition({"name": "A", "type": "string", "versions": "0+", "default": "null"}), "never nullable"),
        (definition({"name": "A", "type": "int32", "versions": "0+", "default": "many"}), "default of XRequest.A"),
        (definition({"name": "A", "type": "int32", "versions": "0+", "nulable": "0+"}), "unknown keys: nulable"),
        (definition(type="question"), "type 'question'"),
    ],
)
def test_an_invalid_definition_is_refused_with_a_reason(wrong: dict, said: str):
    """The reader of the error knows the field and the rule."""
    with pytest.raises(SchemaError, match=said):
        parse_definition(wrong)


def test_the_error_names_an_invalid_file(tmp_path: Path):
    """The path precedes the reason."""
    (tmp_path / "XRequest.json").write_text(json.dumps(definition(type="question")))
    with pytest.raises(SchemaError, match=r"XRequest\.json: .*question"):
        SchemaFolder(tmp_path)["XRequest"]
    (tmp_path / "YRequest.json").write_text(json.dumps(definition()))
    with pytest.raises(SchemaError, match="it defines 'XRequest'"):
        SchemaFolder(tmp_path)["YRequest"]


def test_a_dialect_that_does_not_exist_is_refused():
    """At start, not at the first request."""
    with pytest.raises(SchemaError, match="no dialect 'klingon'"):
        SchemaFolder(dialect="klingon")


def test_a_version_that_a_message_does_not_have_is_refused():
    """Whoever asks for it has ignored the declared versions."""
    from coordinator.protocol.codec import Codec

    with pytest.raises(SchemaError, match="JoinGroupRequest has no version 10"):
        Codec.of().decoder("JoinGroupRequest", 10)
    with pytest.raises(SchemaError, match="JoinGroupRequest has no version 9"):
        Codec.of("kip-792").decoder("JoinGroupRequest", 9)
    with pytest.raises(KeyError):
        Codec.of().encoder("NoSuchRequest", 0)


def test_names_become_attributes():
    """Kafka's camel case in either spelling, and digits."""
    assert attribute_name("GroupId") == "group_id"
    assert attribute_name("currentStateTimestamp") == "current_state_timestamp"
    assert attribute_name("V3AndBelowTopics") == "v3_and_below_topics"
    assert attribute_name("ReplicaDirectoryID") == "replica_directory_id"


def test_a_message_class_knows_its_key_and_name():
    """Nested structures are attributes of the message, and an unknown name is an ordinary import error."""
    assert messages.JoinGroupRequest.API_KEY == 11
    assert messages.JoinGroupRequest.VERSIONS == (0, 9)
    assert messages.GroupMetadataKey.API_KEY == 2
    assert messages.JoinGroupResponse.JoinGroupResponseMember.NAME == "JoinGroupResponseMember"
    with pytest.raises(ImportError):
        from coordinator.protocol.messages import NoSuchRequest  # noqa: F401


def test_messages_compare_by_value_and_show_their_fields():
    """Messages are mutable, so they compare by value and cannot be keys."""
    one, other = messages.HeartbeatRequest("g", 1, "m"), messages.HeartbeatRequest("g", 1, member_id="m")
    assert one == other
    assert one != messages.HeartbeatRequest("g", 2, "m")
    assert repr(one) == "HeartbeatRequest(group_id='g', generation_id=1, member_id='m', group_instance_id=None)"
    with pytest.raises(TypeError):
        hash(one)
