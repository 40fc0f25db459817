"""A client of one user, and its answers without what differs from one server or run to the next."""

import re
from typing import Any

from tests.support.wire import Connection, Values

PASSWORD = "word"
INVALID_REQUEST = 42
"""Its messages are prose."""
DROPPED = {"throttle_time_ms", "host", "port", "cluster_id", "rack"}
"""Fields that are not compared."""
MADE_UP = {
    "producer_id": "<producer>",
    "session_id": "<session>",
    "base_offset": "<offset>",
    "log_append_time_ms": "<time>",
    "transaction_start_time_ms": "<time>",
    "last_timestamp": "<time>",
    "log_dir": "<folder>",
    "offset_lag": "<size>",
    "partition_size": "<size>",
    "size": "<size>",
    "total_bytes": "<size>",
    "usable_bytes": "<size>",
    "log_end_offset": "<offset>",
    "high_watermark": "<offset>",
    "last_stable_offset": "<offset>",
    "last_fetch_timestamp": "<time>",
    "last_caught_up_timestamp": "<time>",
    "leader_epoch": "<epoch>",
    "replica_directory_id": "<folder>",
    "token_id": "<token>",
    "issue_timestamp": "<time>",
    "issue_timestamp_ms": "<time>",
    "expiry_timestamp": "<time>",
    "expiry_timestamp_ms": "<time>",
    "max_timestamp": "<time>",
    "max_timestamp_ms": "<time>",
}
"""Values that each server makes up, if there are any."""
SHARED_TOPICS = {"mine", "yours", "team-a", "team-b", "public", "written", "__consumer_offsets", "__transaction_state"}
LISTED = {
    "ListGroups": ("groups", "group_id", {"g-mine", "g-yours", "classic", "consumer", "share", "streams"}),
    "ListTransactions": ("transaction_states", "transactional_id", {"x-mine", "x-yours"}),
    "Metadata": ("topics", "name", {*SHARED_TOPICS, "missing", "gone", "bad name", "new one", None}),
    "DescribeTopicPartitions": ("topics", "name", {*SHARED_TOPICS, "missing", "gone"}),
}
"""Of lists of everything, the resources that no request makes or deletes."""
HASHED = {
    "AddPartitionsToTxn": "results_by_topic_v3_and_below",
    "AlterReplicaLogDirs": "partitions",
    "ConsumerGroupDescribe": "topic_partitions",
    "CreatePartitions": "results",
    "CreateTopics": "topics",
    "DeleteGroups": "results",
    "DeleteRecords": "topics",
    "DeleteTopics": "responses",
    "ListGroups": "groups",
    "ListTransactions": "transaction_states",
    "Metadata": "topics",
    "Produce": "responses",
    "ShareGroupDescribe": "topic_partitions",
    "WriteTxnMarkers": "topics",
}
"""The lists whose order in Kafka is that of a hash table, or by chance; here it is mostly that of the request."""
NEEDS = re.compile(r"Request Request\(.*\) needs [A-Z_]+ permission\.", re.DOTALL)
"""What Kafka says to clients about a request that the cluster's rules do not allow; here it gets the error's own text."""
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class TopicId:
    """Stands for the id of a topic in a request; of no topic if there is none of this name."""

    def __init__(self, name: str):
        self.name = name


class Asked:
    """What the client of a user asks a server, and gets."""

    def __init__(self, bootstrap: str, user: str, names: dict[bytes, str]):
        """`names`: the names of topics by their ids."""
        self.user = user
        self.link = Connection(bootstrap, "test")
        self.names = names
        assert self.link.call("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == 0
        answer = self.link.call("SaslAuthenticate", 2, auth_bytes=f"\0{user}\0{PASSWORD}".encode())
        assert answer["error_code"] == 0, answer

    def close(self) -> None:
        self.link.close()

    def ask(self, api: str, version: int, values: Values) -> Values:
        """The answer, normalised."""
        answer = self.link.call(api, version, **self._with_ids(values))
        if api in LISTED:
            self._keep_listed(api, answer)
        if api in ("Metadata", "DescribeTopicPartitions"):
            for topic in answer["topics"]:
                topic["partitions"] = f"<{len(topic['partitions'])} partitions>"
        return self._normalised(answer, api)

    def _with_ids(self, value: Any) -> Any:
        if isinstance(value, TopicId):
            return next((each for each, name in self.names.items() if name == value.name), bytes(15) + b"\5")
        if isinstance(value, dict):
            if value.get("error_code") == INVALID_REQUEST and value.get("error_message"):
                value = value | {"error_message": "<why>"}
            return {key: self._with_ids(each) for key, each in value.items()}
        return [self._with_ids(each) for each in value] if isinstance(value, list) else value

    def _keep_listed(self, api: str, answer: Values) -> None:
        field, key, kept = LISTED[api]
        answer[field] = [each for each in answer[field] if each[key] in kept]

    def _normalised(self, value: Any, api: str, field: str = "") -> Any:
        if isinstance(value, dict):
            if value.get("error_code") == INVALID_REQUEST and value.get("error_message"):
                value = value | {"error_message": "<why>"}
            return {key: self._normalised(each, api, key) for key, each in value.items() if key not in DROPPED}
        if isinstance(value, list):
            found = [self._normalised(each, api, field) for each in value]
            return sorted(found, key=str) if HASHED.get(api) == field else found
        if field in MADE_UP and value not in (None, "", bytes(16), -1) and (value or "timestamp" not in field):
            return MADE_UP[field]
        if isinstance(value, bytes):
            return self._name_of(value)
        if isinstance(value, str):
            value = NEEDS.sub("Cluster authorization failed.", value)
            return UUID.sub("<uuid>", value).replace(self.user, "<user>")
        return value

    def _name_of(self, value: bytes) -> str:
        if len(value) == 16 and any(value):
            return f"<id of {self.names.get(value, 'no topic')}>"
        return "<none>" if not any(value) else f"<{len(value)} bytes>"
