"""AlterReplicaLogDirs (key 34): moves replicas to another folder of a broker (KIP-113).

This server has one data folder. A move to it changes nothing; any other path, however it is written, is LOG_DIR_NOT_FOUND.
A partition that the request names twice is answered once, for the last path.
"""

from coordinator.api import Api, Exchange, Server
from coordinator.api.error_families import LEADER_ERRORS
from coordinator.api.guards import guarded_by_cluster
from coordinator.config.settings import absolute_log_dir
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from coordinator.security.access import ALTER_CLUSTER

_Topic = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
_Partition = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


def handle(server: Server, exchange: Exchange[AlterReplicaLogDirsRequest]) -> None:
    own = absolute_log_dir(server.config)
    exchange.reply(
        _response(
            {
                name: {index: _error(server, name, index, is_own=path == own) for index, path in partitions.items()}
                for name, partitions in _paths(exchange.request).items()
            }
        )
    )


def refuse(request: AlterReplicaLogDirsRequest, error: KafkaError, _api_version: int) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            _Topic(
                topic_name=topic.name,
                partitions=[_Partition(partition_index=index, error_code=error.code) for index in topic.partitions],
            )
            for folder in request.dirs
            for topic in folder.topics
        ]
    )


def _paths(request: AlterReplicaLogDirsRequest) -> dict[str, dict[int, str]]:
    """Topic -> partition -> path."""
    paths: dict[str, dict[int, str]] = {}
    for folder in request.dirs:
        for topic in folder.topics:
            if topic.partitions:
                paths.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, folder.path))
    return paths


def _error(server: Server, name: str, index: int, *, is_own: bool) -> ErrorCode:
    """Checks one move, as Kafka's ReplicaManager.alterReplicaLogDirs does: the folder first."""
    if not is_own:
        return ErrorCode.LOG_DIR_NOT_FOUND
    exists = 0 <= index < (server.topics.partition_count(name) or 0)
    return ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _response(errors: dict[str, dict[int, ErrorCode]]) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            _Topic(
                topic_name=name,
                partitions=[_Partition(partition_index=index, error_code=code) for index, code in partitions.items()],
            )
            for name, partitions in errors.items()
        ]
    )


API = Api(
    key=34,
    name="AlterReplicaLogDirs",
    versions=(1, 2),
    access=(ALTER_CLUSTER,),
    handle=handle,
    refuse=refuse,
    guard=guarded_by_cluster(ALTER_CLUSTER, handle),
    writes=False,
    errors=LEADER_ERRORS | {ErrorCode.LOG_DIR_NOT_FOUND, ErrorCode.CLUSTER_AUTHORIZATION_FAILED},
    elements=("dirs.topics.partitions",),
)
