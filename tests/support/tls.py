"""Certificates for tests, made by openssl: an authority, and a certificate for loopback that serves both sides.

Where openssl is missing the test skips with a reason.
"""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

_EXTENSIONS = "subjectAltName=IP:127.0.0.1,DNS:localhost\n"


class Pem(NamedTuple):
    """Files in PEM."""

    ca: Path
    certificate: Path
    key: Path


def certificates(folder: Path) -> Pem:
    """A new authority, and a certificate of it for 127.0.0.1 and localhost."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    pem = Pem(folder / "ca.pem", folder / "certificate.pem", folder / "key.pem")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    ca_key, request, extensions = folder / "ca-key.pem", folder / "request.pem", folder / "extensions"
    extensions.write_text(_EXTENSIONS)
    _openssl("req", "-x509", *new_key, "-keyout", ca_key, "-out", pem.ca, "-subj", "/CN=test authority", "-days", "2")
    _openssl("req", *new_key, "-keyout", pem.key, "-out", request, "-subj", "/CN=test")
    signing = ["-CA", pem.ca, "-CAkey", ca_key, "-CAcreateserial", "-extfile", extensions, "-days", "2"]
    _openssl("x509", "-req", "-in", request, "-out", pem.certificate, *signing)
    return pem


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
