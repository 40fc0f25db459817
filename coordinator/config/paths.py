"""Where the configuration files are that come with the server: beside the message definitions."""

from coordinator.protocol.schema import SCHEMAS

CONFIGS = SCHEMAS.with_name("config")
"""The folder of `default.yaml`, `container.yaml` and `test.yaml`."""
