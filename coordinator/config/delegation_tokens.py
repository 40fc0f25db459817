"""The settings of delegation tokens (KIP-48), with Kafka's names."""

from dataclasses import dataclass, field

from coordinator.config.parsers import POSITIVE_LONG, SECRET, Parser


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokensConfig:
    """Whether there are delegation tokens, and how long they live."""

    delegation_token_secret_key: str = field(default="", repr=False)
    delegation_token_max_lifetime_ms: int = 604_800_000
    delegation_token_expiry_time_ms: int = 86_400_000
    delegation_token_expiry_check_interval_ms: int = 3_600_000


# fmt: off
ROWS: tuple[tuple[str, type, Parser, str, str], ...] = (
    ("delegation.token.secret.key", DelegationTokensConfig, SECRET, "",
     "The key from which the passwords of delegation tokens are derived; without it there are no tokens. A new one voids all."),
    ("delegation.token.max.lifetime.ms", DelegationTokensConfig, POSITIVE_LONG, "milliseconds",
     "The longest life of a delegation token, however often it is renewed."),
    ("delegation.token.expiry.time.ms", DelegationTokensConfig, POSITIVE_LONG, "milliseconds",
     "How long a delegation token is valid unless it is renewed."),
    ("delegation.token.expiry.check.interval.ms", DelegationTokensConfig, POSITIVE_LONG, "milliseconds",
     "The interval at which the server removes expired delegation tokens. They are refused before that, too."),
)
# fmt: on
