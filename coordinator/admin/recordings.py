"""Recordings over HTTP: what clients asked and were answered (rules/recordings.py; docs/control.md)."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request, Response, TimeoutMs
from coordinator.admin.faults import ID_HEADER, ClearQuery, ScopeQuery, chosen_id, scope_to_clear
from coordinator.admin.server_view import ServerView
from coordinator.rules.check import RefusedRule
from coordinator.rules.model import Cleared, RecordingList, RecordingPage, RecordingRequest, RecordingStatus
from coordinator.rules.recordings import PAGE_ENTRIES, RECORDINGS_MAX, Recording, TooManyRecordings


class RecordingQuery(Struct, frozen=True):
    after: Annotated[int, Meta(ge=0, le=2**53, description="Entries after this number.")] = 0
    limit: Annotated[int, Meta(ge=1, le=PAGE_ENTRIES, description="The largest number of entries in an answer.")] = (
        PAGE_ENTRIES
    )
    timeout_ms: TimeoutMs = 0


def begin_recording(server: ServerView, request: Request) -> RecordingStatus:
    """Records requests from now on, and their answers."""
    recordings = server.interceptor.recordings
    recording_id = chosen_id(request, "r", recordings.by_id)
    try:
        return recordings.add(request.body, recording_id).status
    except RefusedRule as error:
        raise RefusedRequest(422, error.text, error.allowed or None) from None
    except TooManyRecordings:
        raise RefusedRequest(409, f"there are {RECORDINGS_MAX} recordings; delete some") from None


def list_recordings(server: ServerView, request: Request) -> RecordingList:
    """The recordings of a scope, or all, without their entries."""
    return RecordingList([each.status for each in server.interceptor.recordings.of_scope(request.query.scope)])


def delete_recordings(server: ServerView, request: Request) -> Cleared:
    """Ends the recordings of a scope, or all."""
    recordings = server.interceptor.recordings
    return Cleared(recordings.remove(recordings.of_scope(scope_to_clear(request))))


async def read_recording(server: ServerView, request: Request) -> Response:
    """Entries after a number; waits for the first one."""
    recording, query = _recording(server, request), request.query
    by_id = server.interceptor.recordings.by_id
    await recording.changes.wait(lambda: recording.last > query.after or recording.id not in by_id, query.timeout_ms)
    entries, last = recording.page(query.after, query.limit)
    page = {"entries": [msgspec.Raw(entry) for entry in entries], "next": last, "dropped": recording.dropped}
    return Response(body=msgspec.json.encode(page))


def delete_recording(server: ServerView, request: Request) -> Cleared:
    """Ends a recording, and drops its entries."""
    return Cleared(server.interceptor.recordings.remove([_recording(server, request)]))


def _recording(server: ServerView, request: Request) -> Recording:
    recording_id = request.parameters["recording_id"]
    recording = server.interceptor.recordings.by_id.get(recording_id)
    if recording is None:
        raise RefusedRequest(404, f"there is no recording {recording_id}: it never was, or is deleted")
    return recording


_RECORDING = "/v1/recordings/{recording_id}"
ENDPOINTS = (
    Endpoint(
        "POST", "/v1/recordings", "record requests and answers", begin_recording, name="createRecording",
        body=RecordingRequest, returns=RecordingStatus, refusals=(409, 422), headers=ID_HEADER, control=True,
        creates="/v1/recordings/{id}",
    ),
    Endpoint(
        "GET", "/v1/recordings", "list recordings", list_recordings, name="listRecordings", query=ScopeQuery,
        returns=RecordingList, control=True,
    ),
    Endpoint(
        "DELETE", "/v1/recordings", "end recordings", delete_recordings, name="endRecordings", query=ClearQuery,
        returns=Cleared, refusals=(422,), control=True,
    ),
    Endpoint(
        "GET", _RECORDING, "read entries of a recording; ?timeout_ms= waits for some", read_recording,
        name="readRecording", query=RecordingQuery, returns=RecordingPage, refusals=(404,), control=True,
    ),
    Endpoint(
        "DELETE", _RECORDING, "end a recording", delete_recording, name="endRecording", returns=Cleared,
        refusals=(404,), control=True,
    ),
)  # fmt: skip
