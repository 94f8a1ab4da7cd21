"""The client of Jeton: counters in which every operation carries an id, and every id counts once.

>>> from jeton import Client
>>> with Client("127.0.0.1:6380") as client:      # doctest: +SKIP
...     print(client.add("clicks", 1).value)

Invariants:

- One operation, one id. The client generates the id before the first attempt; every retry and hedge sends the same
  bytes.
- Never a new id after an unknown outcome. An operation that may have been counted raises `UnknownOutcome` with its id:
  a retry with this id is safe, a retry with another id is not.
- Every other error of a write means that nothing changed, except `IdExpired`.
"""

from ._aio import AsyncClient
from ._client import Client
from ._commands import ManyOutcome, OperationStatus, Outcome, Status
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
from ._id_generator import IdGenerator
from ._outbox import Outbox, OutboxBroken, OutboxError, OutboxFull, OutboxLocked, Undelivered
from ._retry import Backoff, Policy
from ._transactions.aio import AsyncSession, AsyncTransactions
from ._transactions.sync import Session, Transactions
from ._transactions.wire import TransactionOutcome

__all__ = [
    "AsyncClient",
    "AsyncSession",
    "AsyncTransactions",
    "Backoff",
    "BadParameters",
    "Busy",
    "Client",
    "Fenced",
    "IdExpired",
    "IdFormat",
    "IdFuture",
    "IdGenerator",
    "IdMismatch",
    "IdRequired",
    "InvalidRequest",
    "JetonError",
    "ManyOutcome",
    "NoAuth",
    "NoPermission",
    "NoSession",
    "NoTable",
    "OperationStatus",
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
