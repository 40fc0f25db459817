"""The part of a bank worker that is independent of its library: one transfer in, two entries out.

worker BOOTSTRAP GROUP TRANSACTIONAL_ID GROUP_PROTOCOL

A transfer is the text "id:from:to:amount". Its entries, "id:account:amount", go to the partition of the account. The
worker reports on stdout as JSON lines: {"event": "began"}, and "aborted" and "ended" with a "why". SIGUSR1 makes it
stop itself (SIGSTOP) in its next transaction, when everything is produced and the offsets are not yet sent: the moment
in which a worker turns into a zombie.
"""

import json
import os
import signal
import sys
from typing import Any

TRANSFERS, LEDGER = "transfers", "ledger"
TRANSFER_PARTITIONS, ACCOUNTS = 4, 2
BATCH = 10
TRANSACTION_TIMEOUT_MS = 60_000
SESSION_TIMEOUT_MS = 1_500

_stops_next = False


def entries(transfer: str) -> list[tuple[int, bytes]]:
    """The account (a partition of the ledger) and the text of both entries."""
    number, giver, taker, amount = transfer.split(":")
    return [
        (int(giver), f"{number}:{giver}:-{amount}".encode()),
        (int(taker), f"{number}:{taker}:{amount}".encode()),
    ]


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def obey_signals() -> None:
    def stop_next(*_: object) -> None:
        global _stops_next  # noqa: PLW0603 - a signal has no other place to leave its news
        _stops_next = True

    signal.signal(signal.SIGUSR1, stop_next)


def stop_if_asked() -> None:
    """Becomes a zombie here if SIGUSR1 requested it."""
    global _stops_next  # noqa: PLW0603 - as above
    if _stops_next:
        _stops_next = False
        os.kill(os.getpid(), signal.SIGSTOP)


def arguments() -> tuple[str, str, str, str]:
    bootstrap, group, transactional_id, protocol = sys.argv[1:5]
    return bootstrap, group, transactional_id, protocol
