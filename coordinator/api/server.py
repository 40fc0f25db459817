"""What an API file may use of the server: one protocol, which the composition root fulfils (server/composition.py).

An API file imports this and nothing above it. Coordinator APIs hand their request to a shard of `groups`, `transactions` or
`share_states`;
the others call the topics, or answer from the configuration.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from coordinator.api.cluster import Cluster
from coordinator.config.broker_configs import Endpoint
from coordinator.config.settings import ServerConfig
from coordinator.groups.machine import GroupMachine
from coordinator.protocol.patterns import MatchPatterns
from coordinator.runtime.memory import Memory
from coordinator.runtime.router import Router
from coordinator.share_state.coordinator import ShareCoordinator
from coordinator.topics.auto_creation import AutoTopicCreation
from coordinator.topics.encoded_topics import EncodedTopics
from coordinator.topics.share.manager import ShareManager
from coordinator.topics.topics import Topics
from coordinator.transactions.machine import TransactionMachine
from coordinator.transactions.marker_delivery import MarkerWriter
from coordinator.transactions.producer_id_pool import ProducerIdPool
from coordinator.transactions.verification import Verifier
from coordinator.world.entropy import Entropy

if TYPE_CHECKING:
    from coordinator.security.delegation_tokens import DelegationTokens
    from coordinator.security.standard_authorizer import StandardAuthorizer


class Server(Protocol):
    """The running server, as an API file sees it."""

    @property
    def config(self) -> ServerConfig: ...
    @property
    def cluster_id(self) -> str: ...
    @property
    def node_id(self) -> int: ...
    @property
    def controller_id(self) -> int: ...
    @property
    def cluster(self) -> Cluster: ...
    @property
    def endpoints(self) -> Sequence[Endpoint]: ...
    @property
    def entropy(self) -> Entropy: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def match_patterns(self) -> MatchPatterns: ...
    @property
    def groups(self) -> Router[GroupMachine]: ...
    @property
    def transactions(self) -> Router[TransactionMachine]: ...
    @property
    def share_states(self) -> ShareCoordinator: ...
    @property
    def share_partitions(self) -> ShareManager: ...
    @property
    def topics(self) -> Topics: ...
    @property
    def authorizer(self) -> "StandardAuthorizer | None": ...
    @property
    def delegation_tokens(self) -> "DelegationTokens": ...
    @property
    def encoded_topics(self) -> EncodedTopics: ...
    @property
    def auto_topic_creation(self) -> AutoTopicCreation: ...
    @property
    def producer_ids(self) -> ProducerIdPool: ...
    @property
    def verification(self) -> Verifier: ...
    @property
    def markers(self) -> MarkerWriter: ...
