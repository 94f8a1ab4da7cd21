"""The client of Jeton: counters in which every operation carries an id, and every id counts once.

>>> from jeton import Client
>>> with Client("127.0.0.1:6380") as client:      # doctest: +SKIP
...     print(client.add("clicks", 1).value)

What always holds here:

- One operation, one id. The id is made before the first send, and every retry and hedge sends the same bytes.
- Never a new id on an unknown outcome. An operation that may have been counted raises `UnknownOutcome`, which
  carries the id: asking again with it is safe, asking with another is not.
- Any other error about a write says that nothing changed; except `IdExpired`, which says so itself.
"""

from ._aio import AsyncClient
from ._client import Client
from ._course import Backoff, Policy
from ._errors import (
    BadParameters,
    Busy,
    Fenced,
    IdExpired,
    IdFormat,
    IdFuture,
    IdMismatch,
    IdRequired,
    InvalidRequest,
    JetonError,
    NoAuth,
    NoPermission,
    NoSession,
    NoTable,
    Refused,
    UnknownOutcome,
    UnknownProcedure,
    Unreachable,
    WrongPass,
)
from ._mint import Mint
from ._outbox import Outbox, OutboxBroken, OutboxError, OutboxFull, OutboxLocked, Undelivered
from ._transactions.aio import AsyncSession, AsyncTransactions
from ._transactions.sync import Session, Transactions
from ._transactions.words import TransactionOutcome
from ._verbs import Fate, ManyOutcome, Outcome, Status

__all__ = [
    "AsyncClient",
    "AsyncSession",
    "AsyncTransactions",
    "Backoff",
    "BadParameters",
    "Busy",
    "Client",
    "Fate",
    "Fenced",
    "IdExpired",
    "IdFormat",
    "IdFuture",
    "IdMismatch",
    "IdRequired",
    "InvalidRequest",
    "JetonError",
    "ManyOutcome",
    "Mint",
    "NoAuth",
    "NoPermission",
    "NoSession",
    "NoTable",
    "Outbox",
    "OutboxBroken",
    "OutboxError",
    "OutboxFull",
    "OutboxLocked",
    "Outcome",
    "Policy",
    "Refused",
    "Session",
    "Status",
    "TransactionOutcome",
    "Transactions",
    "Undelivered",
    "UnknownOutcome",
    "UnknownProcedure",
    "Unreachable",
    "WrongPass",
]
