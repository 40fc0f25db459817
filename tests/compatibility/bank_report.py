"""Where a bank stands: what one needs in order to find out why its money does not move any more.

Each line answers one question, in the way of a transfer: who is in the group and what does it own, how far has the group
committed (pending offsets show as a difference of stable and other positions), which transactions are open, how far can
`read_committed` read, and how far has the auditor read.
"""

from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Consumer

from tests.support.server_process import ServerProcess
from tests.support.wire import Connection, ConnectionClosed, Values

LOG_LINES = 15
_LATEST = -1


def report(server: ServerProcess, group: str, ids: Sequence[str], topics: Mapping[str, int], auditor: Consumer) -> str:
    """Lines about the group, the transactions of these ids and of others, and the topics (name -> partitions)."""
    lines = [f"auditor at {positions(auditor)}"]
    try:
        with Connection(server.bootstrap) as link:
            lines += asked(link, group, ids, topics)
    except (OSError, ConnectionClosed) as error:
        lines.append(f"the server does not answer: {error!r}")
    return "\n".join([*lines, *server.log.splitlines()[-LOG_LINES:]])


def positions(auditor: Consumer) -> dict[str, int]:
    return {f"{each.topic}-{each.partition}": each.offset for each in auditor.position(auditor.assignment())}


def asked(link: Connection, group: str, ids: Sequence[str], topics: Mapping[str, int]) -> Iterator[str]:
    for stable in (True, False):
        groups = [{"group_id": group, "topics": None}]
        [found] = link.call("OffsetFetch", 8, groups=groups, require_stable=stable)["groups"]
        yield f"committed, require_stable={stable}: {offsets(found)}"
    yield from described(link, group)
    listed = {each["transactional_id"] for each in link.call("ListTransactions", 0)["transaction_states"]}
    for each in link.call("DescribeTransactions", 0, transactional_ids=sorted(listed | set(ids)))["transaction_states"]:
        yield f"transaction {each}"
    for isolation in (0, 1):
        yield f"ends, isolation {isolation}: {ends(link, topics, isolation)}"
    places = [{"name": name, "partition_indexes": list(range(count))} for name, count in topics.items()]
    for topic in link.call("DescribeProducers", 0, topics=places)["topics"]:
        for each in topic["partitions"]:
            is_open = [who for who in each["active_producers"] if who["current_txn_start_offset"] >= 0]
            yield f"open in {topic['name']}-{each['partition_index']}: {is_open}"


def described(link: Connection, group: str) -> Iterator[str]:
    """The group and its members, whatever its kind."""
    for each in link.call("ConsumerGroupDescribe", 0, group_ids=[group])["groups"]:
        yield f"group {each['error_code']} {each['group_state']} epoch {each['group_epoch']}/{each['assignment_epoch']}"
        for member in each["members"]:
            owned, target = (parts(member[field]["topic_partitions"]) for field in ("assignment", "target_assignment"))
            yield f"member {member['client_id']} epoch {member['member_epoch']}: owns {owned}, target {target}"
    for each in link.call("DescribeGroups", 5, groups=[group])["groups"]:
        clients = [member["client_id"] for member in each["members"]]
        yield f"classic group {each['error_code']} {each['group_state']}: {clients}"


def parts(assigned: Sequence[Values]) -> dict[str, list[int]]:
    return {each["topic_name"]: each["partitions"] for each in assigned}


def offsets(found: Values) -> dict[str, tuple[int, int]]:
    """Topic and partition -> offset and error."""
    return {
        f"{topic['name']}-{each['partition_index']}": (each["committed_offset"], each["error_code"])
        for topic in found["topics"]
        for each in topic["partitions"]
    }


def ends(link: Connection, topics: Mapping[str, int], isolation: int) -> dict[str, int]:
    places = [
        {"name": name, "partitions": [{"partition_index": index, "timestamp": _LATEST} for index in range(count)]}
        for name, count in topics.items()
    ]
    answer = link.call("ListOffsets", 3, replica_id=-1, isolation_level=isolation, topics=places)
    return {
        f"{topic['name']}-{each['partition_index']}": each["offset"]
        for topic in answer["topics"]
        for each in topic["partitions"]
    }
