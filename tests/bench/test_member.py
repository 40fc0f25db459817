"""The member of a classic group with which the bench loads a server."""

from coordinator.protocol.messages import JoinGroupResponse, SyncGroupResponse
from coordinator_lab.bench.rebalance import MEMBER_ID_REQUIRED, RANGE, UNKNOWN_MEMBER_ID, Member


class Answers:
    """A connection that gives these answers; `asked` has the requests."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.asked = []

    async def send(self, request, _version):
        self.asked.append(request)
        return self._answers.pop(0)


async def test_a_pending_member_whose_group_was_deleted_joins_again():
    """The soak joins all the time, also at the moment in which empty groups are deleted."""
    member = Member("localhost", 9092, RANGE)
    member._client = Answers(
        JoinGroupResponse(error_code=MEMBER_ID_REQUIRED, member_id="first"),
        JoinGroupResponse(error_code=UNKNOWN_MEMBER_ID, member_id="first"),
        JoinGroupResponse(error_code=MEMBER_ID_REQUIRED, member_id="second"),
        JoinGroupResponse(generation_id=1, member_id="second"),
        SyncGroupResponse(),
    )
    await member.join()
    assert [request.member_id for request in member._client.asked] == ["", "first", "", "second", "second"]
