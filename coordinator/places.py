"""Where the files are that are not code: message definitions and configurations.

In a checkout they lie beside the package, where people look for them; in an installed wheel inside it, where nothing else
can be in their way (`setup.py` puts them there).
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_BUNDLED = _PACKAGE / "bundled"
_ROOT = _BUNDLED if _BUNDLED.is_dir() else _PACKAGE.parent

SCHEMAS = _ROOT / "protocol_schemas"
CONFIGS = _ROOT / "config"
"""`default.yaml` and `test.yaml`."""
