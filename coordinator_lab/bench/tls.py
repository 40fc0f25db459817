"""What TLS costs: this server with a listener without it and with it, in turns under the same conditions.

Requests go over connections that stay. New connections are measured on their own, because what they cost is the handshake.
"""

import datetime as dt
import ipaddress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from coordinator_lab.bench.load import Outcome, Plan
from coordinator_lab.bench.new_connections import Connected, ConnectingPlan
from coordinator_lab.bench.programs import own_server, ratio_spread, run_plan, spread

_VALID = dt.timedelta(days=1)
_HEADS = " ".join(f"{head:>24}" for head in ("without TLS", "with TLS", "ratio"))


@dataclass(frozen=True, slots=True)
class TlsRow:
    """A row of the table of requests."""

    name: str
    request: str
    connections: int
    partitions: int


ROWS = (
    TlsRow("tls: heartbeat, 100 connections", "heartbeat", 100, 0),
    TlsRow("tls: commit 1 partition, 100 connections", "commit", 100, 1),
)
NEW_CONNECTIONS = "tls: new connections"


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """Files: a certificate for loopback that signs itself, and the same with its key."""

    certificate: str
    with_key: str


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all rows have in common."""

    seconds: float
    repetitions: int
    durability: str
    warm_up_s: float
    made: ServerCertificate


def report_tls(match: str, seconds: float, repetitions: int, durability: str, warm_up_s: float) -> None:
    """CPU time per request and per new connection without TLS and with it, and the ratios, each within one repetition."""
    rows = [row for row in ROWS if match in row.name]
    if not rows and match not in NEW_CONNECTIONS:
        return
    with TemporaryDirectory() as folder:
        conditions = Conditions(seconds, repetitions, durability, warm_up_s, make_certificate(Path(folder)))
        if rows:
            print(f"\n{'CPU us per request':48} {_HEADS}")  # noqa: T201
        for row in rows:
            _report_requests(row, conditions)
        if match in NEW_CONNECTIONS:
            _report_new_connections(conditions)


def _report_requests(row: TlsRow, when: Conditions) -> None:
    plan = Plan("", 0, row.request, row.connections, 1, row.partitions, when.warm_up_s, when.seconds, 0, joins=True)
    plain, tls = (
        [outcome.server_cpu_s / outcome.answers * 1e6 for outcome in (Outcome(**each) for each in found)]
        for found in _in_turns("coordinator_lab.bench.load", asdict(plan), when)
    )
    _print(row.name, plain, tls)


def _report_new_connections(when: Conditions) -> None:
    plan = ConnectingPlan("", 0, "", when.warm_up_s, when.seconds, 0)
    plain, tls = (
        [Connected(**each) for each in found]
        for found in _in_turns("coordinator_lab.bench.new_connections", asdict(plan), when)
    )
    print(f"\n{'CPU us per new connection':48} {_HEADS}")  # noqa: T201
    _print(NEW_CONNECTIONS, *([each.server_cpu_s / each.connections * 1e6 for each in found] for found in (plain, tls)))
    rates = (median(each.connections / each.seconds for each in found) for found in (plain, tls))
    print(f"{'new connections per second':48} " + " ".join(f"{rate:24,.0f}" for rate in rates))  # noqa: T201


def _in_turns(module: str, plan: dict[str, Any], when: Conditions) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What the load generator prints about a server without TLS and one with it, for each repetition."""
    plain: list[dict[str, Any]] = []
    tls: list[dict[str, Any]] = []
    with_tls = ("listener.security.protocol.map=PLAINTEXT:SSL", f"ssl.keystore.location={when.made.with_key}")
    for _ in range(when.repetitions):
        for found, certificate, settings in ((plain, "", ()), (tls, when.made.certificate, with_tls)):
            with own_server(when.durability, *settings) as at:
                placed = {"host": at.host, "port": at.port, "server_pid": at.pid, "certificate": certificate}
                found.append(run_plan(module, plan | placed))
    return plain, tls


def _print(name: str, plain: list[float], tls: list[float]) -> None:
    columns = (spread(plain), spread(tls), ratio_spread(tls, plain))
    print(f"{name:48} " + " ".join(f"{column:>24}" for column in columns), flush=True)  # noqa: T201


def make_certificate(folder: Path) -> ServerCertificate:
    """Makes a certificate with a key of the curve P-256, and writes both."""
    from cryptography import x509  # noqa: PLC0415 - slow to import, and only these rows need it
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bench")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now - _VALID, now + _VALID
    )
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made = ServerCertificate(str(folder / "certificate.pem"), str(folder / "with-key.pem"))
    Path(made.certificate).write_bytes(pem)
    Path(made.with_key).write_bytes(key_pem + pem)
    return made
