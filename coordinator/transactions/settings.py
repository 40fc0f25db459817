"""The settings of transactions, under Kafka's names (dots become underscores) and with Kafka's defaults."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsConfig:
    """The server's settings for transactions. config/settings.py documents them."""

    transaction_version: int = 2
    """The feature level (KIP-890). From 1 on, log records are flexible; from 2 on, each EndTxn returns a new epoch."""
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_partition_verification_enable: bool = True
