"""Code from the cache reads and writes what generated code does, and is used only for what it was generated from."""

import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.messages import JoinGroupRequest, JoinGroupResponse
from coordinator.protocol.schema import SCHEMAS, SchemaFolder
from coordinator.world.code_cache import CodeCache


@pytest.fixture
def cache(tmp_path) -> CodeCache:
    return CodeCache(tmp_path / "code")


@pytest.fixture
def no_generator(monkeypatch):
    """From here on, generating code fails."""

    def refuse(*_arguments):
        raise AssertionError("code was generated")

    return lambda: monkeypatch.setattr(Codec, "_generate", refuse)


def codec(cache: CodeCache, **options) -> Codec:
    return Codec(SchemaFolder(**options.pop("schemas", {})), code_cache=cache, **options)


def test_a_second_process_generates_nothing(cache, no_generator):
    request = JoinGroupRequest(group_id="g", protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", b"x")])
    response = JoinGroupResponse(members=[JoinGroupResponse.JoinGroupResponseMember("m", None, b"y")])
    messages = {"JoinGroupRequest": request, "JoinGroupResponse": response}
    first = codec(cache)
    encoded = {name: first.encoder(name, 9)(message) for name, message in messages.items()}
    no_generator()
    second = codec(cache)
    for name, message in messages.items():
        assert second.encoder(name, 9)(message) == encoded[name]
        assert second.decoder(name, 9)(encoded[name], 0) == (message, len(encoded[name]))


def test_importing_the_codec_and_loading_code_does_not_import_the_generator(cache):
    """It takes longer to import than a group takes to form."""
    codec(cache).decoder("HeartbeatRequest", 4)
    program = (
        "import sys; from coordinator.protocol.codec import Codec; Codec.of().decoder('HeartbeatRequest', 4);"
        "print('construct' in sys.modules)"
    )
    for folder, imports in ((str(cache.folder), "False"), ("off", "True")):
        environment = {"COORDINATOR_CACHE_DIR": folder, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.stdout.strip(), done.stderr) == (imports, "")


def test_another_definition_has_other_code(cache, tmp_path):
    """A definition that changes keeps its name and its version."""
    folder = tmp_path / "schemas"
    folder.mkdir()
    name, changed = "HeartbeatRequest", Path(folder, "HeartbeatRequest.json")
    original = (SCHEMAS / "HeartbeatRequest.json").read_text()
    changed.write_text(original)
    before = codec(cache, schemas={"folder": folder}).decoder(name, 0)
    changed.write_text(original.replace('"int32"', '"int64"'))
    after = codec(cache, schemas={"folder": folder}).decoder(name, 0)
    body = b"\0\1g" + bytes(4) + b"\0\1m"
    assert before(body, 0)[0].member_id == "m"
    with pytest.raises(DecodeError):
        after(body, 0)
    assert codec(cache, schemas={"folder": folder}).decoder(name, 0)(b"\0\1g" + bytes(8) + b"\0\1m", 0)[1] == 14


def test_dialects_and_limits_have_code_of_their_own(cache):
    plain, dialect = codec(cache), codec(cache, schemas={"dialect": "kip-792"})
    request = JoinGroupRequest(group_id="g")
    assert plain.encoder("JoinGroupRequest", 8)(request) != dialect.encoder("JoinGroupRequest", 8)(request)
    listing = plain.encoder("JoinGroupRequest", 8)(
        JoinGroupRequest(protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name) for name in "abc"])
    )
    assert len(codec(cache).decoder("JoinGroupRequest", 8)(listing, 0)[0].protocols) == 3
    with pytest.raises(DecodeError, match="claims 3 elements"):
        codec(cache, elements_max=2).decoder("JoinGroupRequest", 8)(listing, 0)


def test_cached_code_shows_its_lines_in_tracebacks(cache):
    """Its source is not in the cache."""
    codec(cache).decoder("HeartbeatRequest", 3)
    loaded = codec(cache)
    try:
        loaded.decoder("HeartbeatRequest", 3)(b"\0\1g", 0)
    except DecodeError as error:
        [*_, frame] = traceback.extract_tb(error.__cause__.__traceback__)
    assert frame.filename == "protocol_schemas/HeartbeatRequest.json/v3/decode.py"
    assert frame.line
    assert frame.line in loaded.source("HeartbeatRequest", 3)


def test_precompiling_leaves_nothing_to_generate(cache, no_generator):
    filled = codec(cache)
    for version in filled.versions("JoinGroupRequest"):
        assert filled.store("JoinGroupRequest", version)
    no_generator()
    for version in filled.versions("JoinGroupRequest"):
        codec(cache).decoder("JoinGroupRequest", version)


def test_without_a_cache_code_is_generated():
    request = JoinGroupRequest(group_id="g")
    uncached = codec(CodeCache(None))
    encoded = uncached.encoder("JoinGroupRequest", 9)(request)
    assert uncached.decoder("JoinGroupRequest", 9)(encoded, 0)[0] == request
    assert not uncached.store("JoinGroupRequest", 9)
