"""DescribeLogDirs (key 35): the size of each partition in the data folder, and the space left there (KIP-113, KIP-827).

Null selects every partition. Partitions that do not exist are left out without an error, as in Kafka.
"""

from coordinator.api import Api, Exchange, Server
from coordinator.api.declaration import ErrorPlaces
from coordinator.api.guards import guarded_by_cluster
from coordinator.config.settings import absolute_log_dir
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from coordinator.security.access import DESCRIBE_CLUSTER

_ERROR_SINCE = 3
"""Earlier versions have an error for each folder alone."""
_Result = DescribeLogDirsResponse.DescribeLogDirsResult
_Topic = DescribeLogDirsResponse.DescribeLogDirsTopic
_Partition = DescribeLogDirsResponse.DescribeLogDirsPartition


def handle(server: Server, exchange: Exchange[DescribeLogDirsRequest]) -> None:
    request = exchange.request
    result = _Result(log_dir=absolute_log_dir(server.config))
    try:
        result.total_bytes, result.usable_bytes = server.topics.space()
        result.topics = _topics(server, request)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    exchange.reply(DescribeLogDirsResponse(results=[result]))


def _topics(server: Server, request: DescribeLogDirsRequest) -> list[DescribeLogDirsResponse.DescribeLogDirsTopic]:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    found: dict[str, DescribeLogDirsResponse.DescribeLogDirsTopic] = {}
    for name, index, size_bytes in server.topics.sizes_bytes():
        if wanted is None or (name, index) in wanted:
            topic = found.setdefault(name, _Topic(name=name))
            topic.partitions.append(_Partition(partition_index=index, partition_size=size_bytes))
    return list(found.values())


def _shape(_request: DescribeLogDirsRequest, error: KafkaError, version: int) -> DescribeLogDirsResponse | None:
    if version >= _ERROR_SINCE:
        return None
    return DescribeLogDirsResponse(results=[_Result(error_code=error.code)])


_ERRORS = frozenset({
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.LOG_DIR_NOT_FOUND,
})  # fmt: skip

API = Api(
    key=35,
    name="DescribeLogDirs",
    versions=(1, 5),
    access=(DESCRIBE_CLUSTER,),
    handle=handle,
    guard=guarded_by_cluster(DESCRIBE_CLUSTER, handle),
    writes=False,
    errors=_ERRORS,
    mentions=("topics",),
    places=ErrorPlaces(shape=_shape),
)
