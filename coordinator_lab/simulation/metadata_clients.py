"""An administrator of workers: creates and removes topics, users, ACLs and settings of groups, and remembers what was promised.

Each thing has a name of its own and is created once and removed once, at most. So an acknowledged creation is there in the end,
and an acknowledged removal is final (I39, metadata_invariants.py). What was not acknowledged may be there or not.
"""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any

from coordinator.groups.group_configs import REBALANCE_INTERVAL, RESOURCE_TYPE
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from coordinator_lab.simulation.clients import RETRIABLE_CHANGE, Client, World
from coordinator_lab.simulation.wire import NoResponse

TOPIC_RESOURCE, LITERAL, READ, ALLOW = 2, 3, 3, 3
SHA_256, ITERATIONS = 1, 4_096
_SET, _DELETE = 0, 1
_STALE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""The error of a worker that does not reach the engine, and so does not know yet what another one has created."""
_NO_RESPONSE_S = 0.5
_OTHER_WORKER = 0.5
"""How probably the next change is for another worker, which may be behind."""

Thing = tuple[str, str]
"""Kind and name."""


class Known(Enum):
    """What is known of a thing."""

    THERE = "there"
    GONE = "gone"
    IN_DOUBT = "in doubt"


class MetadataChanger(Client):
    """Changes what all workers share."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.known: dict[Thing, Known] = {}
        self.acknowledged = 0
        """Changes that a worker acknowledged."""
        self._changes: dict[str, Callable[[str, bool], Awaitable[int]]] = {
            "topic": self._topic, "user": self._user, "acl": self._acl, "settings": self._settings,
        }  # fmt: skip

    async def run(self) -> None:
        while True:
            await self.world.sleep(self.random.expovariate(1 / self.world.plan.metadata_s))
            if self.world.is_healed:
                return
            if self.random.random() < _OTHER_WORKER:
                self.caller.give_up()
            try:
                await self._change_something()
            except NoResponse:
                await self.world.sleep(_NO_RESPONSE_S)

    async def _change_something(self) -> None:
        there = [thing for thing, known in self.known.items() if known is Known.THERE]
        if there and self.random.random() < 0.45:
            await self._change(self.random.choice(there), removes=True)
        elif there and self.random.random() < 0.2:
            await self._alter(self.random.choice(there))
        else:
            kind = self.random.choice(list(self._changes))
            await self._change((kind, f"{kind}-{len(self.known)}"), removes=False)

    async def _change(self, thing: Thing, *, removes: bool) -> None:
        self.known[thing] = Known.IN_DOUBT
        kind, name = thing
        code = await self._changes[kind](name, removes)
        self.world.event(f"{self.name} {'removes' if removes else 'creates'} {name}: {ErrorCode(code).name}")
        if code == ErrorCode.NONE:
            self.acknowledged += 1
            self.known[thing] = Known.GONE if removes else Known.THERE
        elif code not in (RETRIABLE_CHANGE | _STALE if removes else RETRIABLE_CHANGE):
            self.unexpected(f"the change of a {kind}", code)

    # --- one kind each: the error code of the answer ------------------------------------------------------------------

    async def _topic(self, name: str, removes: bool) -> int:
        if removes:
            deletion = DeleteTopicsRequest(timeout_ms=5_000, topics=[DeleteTopicsRequest.DeleteTopicState(name)])
            return int((await self.call(deletion, 6)).responses[0].error_code)
        config = CreateTopicsRequest.CreatableTopicConfig("retention.ms", "60000")
        topic = CreateTopicsRequest.CreatableTopic(
            name, num_partitions=self.random.randint(1, 3), replication_factor=1, configs=[config]
        )
        return int((await self.call(CreateTopicsRequest([topic], 5_000), 7)).topics[0].error_code)

    async def _user(self, name: str, removes: bool) -> int:
        deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name, SHA_256)
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name, SHA_256, ITERATIONS, self.random.randbytes(16), self.random.randbytes(32)
        )
        request = AlterUserScramCredentialsRequest([deletion], []) if removes else _upsert(upsertion)
        return int((await self.call(request, 0)).results[0].error_code)

    async def _acl(self, name: str, removes: bool) -> int:
        acl: Any = (TOPIC_RESOURCE, name, LITERAL, f"User:{name}", "*", READ, ALLOW)
        if removes:
            deletion = DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(*acl)])
            return int((await self.call(deletion, 3)).filter_results[0].error_code)
        return int((await self.call(CreateAclsRequest([CreateAclsRequest.AclCreation(*acl)]), 3)).results[0].error_code)

    async def _settings(self, name: str, removes: bool) -> int:
        value = None if removes else str(self.random.randrange(60_000, 3_600_000))
        return await self._alter_config(RESOURCE_TYPE, name, REBALANCE_INTERVAL, value)

    # --- changes of what is there -------------------------------------------------------------------------------------

    async def _alter(self, thing: Thing) -> None:
        kind, name = thing
        if kind == "topic" and self.random.random() < 0.5:
            growth = CreatePartitionsRequest.CreatePartitionsTopic(name, count=self.random.randint(4, 9))
            await self.call(CreatePartitionsRequest([growth], 5_000), 3)
        elif kind == "topic":
            value = self.random.choice([None, "1000", "2000"])
            await self._alter_config(TOPIC_RESOURCE, name, "retention.ms", value)
        elif kind == "user":
            await self._user(name, removes=False)

    async def _alter_config(self, kind: int, name: str, key: str, value: str | None) -> int:
        entry = IncrementalAlterConfigsRequest.AlterableConfig(key, _DELETE if value is None else _SET, value)
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(kind, name, [entry])
        return int((await self.call(IncrementalAlterConfigsRequest([resource]), 1)).responses[0].error_code)


def _upsert(credential: Any) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest([], [credential])
