"""The obvious consumer of confluent-kafka as a static member, also in events that ask for none: with its own instance id."""

import os
import runpy
from pathlib import Path

os.environ["GROUP_INSTANCE_ID"] = os.environ.get("GROUP_INSTANCE_ID") or f"own-{os.environ.get('INSTANCE', '0')}"
runpy.run_path(str(Path(__file__).with_name("confluent_consumer.py")))
