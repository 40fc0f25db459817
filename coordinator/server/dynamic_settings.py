"""Puts the settings and feature levels in force that clients have set (config/dynamic_configs.py, config/features.py)."""

from collections.abc import Callable, Sequence

from coordinator.config import dynamic_configs, features
from coordinator.config.settings import ServerConfig
from coordinator.protocol.messages import ConfigRecord, FeatureLevelRecord, Message
from coordinator.topics.registry import Registry


class DynamicSettings:
    """Calls each of `appliers` with the configuration in force, at first if it is not the server's own, and when it changes."""

    def __init__(self, config: ServerConfig, registry: Registry) -> None:
        self.appliers: list[Callable[[ServerConfig], None]] = []
        self._static = config
        self._registry = registry
        self.config = self._effective()
        """The configuration in force."""

    def start(self) -> None:
        """All appliers are there."""
        if any(settings for _, settings in dynamic_configs.layers(self._registry, self._static.node_id)):
            self._apply()

    def observe(self, records: Sequence[Message]) -> None:
        """These records of the metadata log have been replayed."""
        mine = (dynamic_configs.CLUSTER, str(self._static.node_id))
        if any(
            isinstance(each, FeatureLevelRecord)
            or (
                isinstance(each, ConfigRecord)
                and each.resource_type == dynamic_configs.RESOURCE_TYPE
                and each.resource_name in mine
            )
            for each in records
        ):
            self._apply()

    def _effective(self) -> ServerConfig:
        of = dynamic_configs.layers(self._registry, self._static.node_id)
        level = features.levels(self._static, self._registry)[features.TRANSACTION_VERSION]
        return dynamic_configs.effective(self._static, of, level)

    def _apply(self) -> None:
        self.config = self._effective()
        for apply in self.appliers:
            apply(self.config)
