"""Which limit is a client's: that of the most specific entity (KIP-55, KIP-257; Kafka: `DefaultQuotaCallback`).

The order is user and client id, user and default client id, user, default user and client id, default user and default client
id, default user, client id, default client id. Clients for whom the same entity counts share a limit only if it names them: a
default is a limit of its own for each user, client id, or pair.
"""

from typing import NamedTuple

from coordinator.quotas.names import CLIENT_ID, IP, USER
from coordinator.topics.client_quotas import Quotas

NO_NAME = ""
"""In an `Account`: the user or the client id does not count. A client without a client id has this one, too, as in Kafka."""
_DEFAULT = None
_Pair = tuple[str | None, str | None]
"""User and client id as an entity has them: a name, None for the default, `NO_NAME` if the entity has no such type."""


class Account(NamedTuple):
    """What is counted together: a user, a client id, or a pair (Kafka: the tags of a quota metric)."""

    user: str
    client_id: str


class Limits:
    """The limits of one quota key, by entity of users and client ids."""

    __slots__ = ("_by_pair", "_has_client_ids", "_has_pairs", "_has_users")

    def __init__(self, quotas: Quotas, key: str) -> None:
        self._by_pair: dict[_Pair, float] = {}
        for entity, values in quotas.items():
            names = dict(entity)
            if key in values and IP not in names:
                self._by_pair[names.get(USER, NO_NAME), names.get(CLIENT_ID, NO_NAME)] = values[key]
        kinds = {(user != NO_NAME, client_id != NO_NAME) for user, client_id in self._by_pair}
        self._has_users = (True, False) in kinds
        self._has_client_ids = (False, True) in kinds
        self._has_pairs = (True, True) in kinds

    def __bool__(self) -> bool:
        return bool(self._by_pair)

    def account(self, user: str, client_id: str) -> Account:
        """What the requests of this client count for (`quotaMetricTags`)."""
        kinds = self._has_users + self._has_client_ids + self._has_pairs
        if kinds > 1:
            return self._most_specific(user, client_id)
        if self._has_users:
            return Account(user, NO_NAME)
        return Account(user if self._has_pairs else NO_NAME, client_id)

    def limit(self, account: Account) -> float | None:
        """The limit of an account; None: it has none (`quotaLimit`)."""
        by_pair, (user, client_id) = self._by_pair, account
        users = [user, _DEFAULT] if user else [NO_NAME]
        client_ids = [client_id, _DEFAULT] if client_id else [NO_NAME]
        if not user and not client_id:
            return None
        found = (by_pair.get((each_user, each_id)) for each_user in users for each_id in client_ids)
        return next((limit for limit in found if limit is not None), None)

    def _most_specific(self, user: str, client_id: str) -> Account:
        by_pair = self._by_pair
        for name in (user, _DEFAULT):
            if (name, client_id) in by_pair or (name, _DEFAULT) in by_pair:
                return Account(user, client_id)
            if (name, NO_NAME) in by_pair:
                return Account(user, NO_NAME)
        return Account(NO_NAME, client_id)
