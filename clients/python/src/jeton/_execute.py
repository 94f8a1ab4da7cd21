"""The execution of a request: its retry state, its last error and its result. Shared by all clients, without I/O."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Dict, Generic, List, Optional, Type, TypeVar, Union

from . import _errors as errors
from ._retry import AttemptResult, Failed, RetryOutcome, RetryState

T = TypeVar("T")


class Clock:
    """The monotonic clock. Tests replace it."""

    def now(self) -> float:
        return time.monotonic()

    def left(self, until: float) -> float:
        """Seconds until a time. Limited, because not all systems accept very long timeouts."""
        return min(max(until - self.now(), 0.0), 3600.0)

    def poll(self, until: float, is_idle: bool) -> float:
        """How long a wait may block before it polls again. `is_idle`: nothing is in flight."""
        return self.left(until)


@dataclass(frozen=True)
class AttemptError:
    """Why an attempt got no response, or none that ends the request."""

    text: str
    #: The code of the server's error: the first word of a RESP error, or the kind of an HTTP problem.
    code: str = ""
    result: AttemptResult = AttemptResult.LOST
    #: Whether this attempt may have been applied.
    may_have_applied: bool = True


NO_RESPONSE = AttemptError("no response in time")


class AttemptFailed(Exception):
    """An attempt ended without a response."""

    def __init__(self, error: AttemptError) -> None:
        super().__init__(error.text)
        self.error = error


def not_connected(server: str, reason: object) -> AttemptFailed:
    return AttemptFailed(AttemptError(f"cannot connect to {server}: {reason}", may_have_applied=False))


def not_trusted(server: str, reason: object, is_only_server: bool) -> AttemptFailed:
    """A certificate stays untrusted, so that a retry does not help; another server may have a trusted one."""
    result = AttemptResult.REFUSED if is_only_server else AttemptResult.LOST
    return AttemptFailed(AttemptError(f"{server} is not trusted: {reason}", "", result, may_have_applied=False))


def connection_lost(reason: object) -> AttemptFailed:
    return AttemptFailed(AttemptError(f"the connection was lost: {reason}"))


class Execution(Generic[T]):
    """The execution of one request, and what is known so far. `id` is `None` for a read."""

    def __init__(self, id: Optional[str], retry: RetryState, clock: Clock) -> None:
        self.id = id
        self.retry = retry
        self.clock = clock
        self._responses: List[T] = []
        self._last = NO_RESPONSE

    def report(self, attempt: int, response: Union[T, AttemptError]) -> None:
        """Records the response to an attempt, or its error."""
        result, may_have_applied = AttemptResult.ANSWERED, True
        if isinstance(response, AttemptError):
            self._last, result, may_have_applied = response, response.result, response.may_have_applied
        else:
            self._responses.append(response)
        self.retry.report(self.clock.now(), attempt, result, may_have_applied, random.random())

    def abandoned(self, attempt: int, sent: bool) -> None:
        """Records that an attempt timed out."""
        self.report(attempt, AttemptError(NO_RESPONSE.text, may_have_applied=sent))

    def response(self, outcome: RetryOutcome) -> T:
        """The response at the end of the retries. Raises an error if there is none."""
        if isinstance(outcome, Failed):
            raise error_of(self.id, self._last, outcome.may_have_applied)
        return self._responses[0]


_REFUSALS: Dict[str, Type[errors.Refused]] = {
    "IDMISMATCH": errors.IdMismatch,
    "IDFUTURE": errors.IdFuture,
    "IDREQUIRED": errors.IdRequired,
    "IDFORMAT": errors.IdFormat,
    "NOSESSION": errors.NoSession,
    "FENCED": errors.Fenced,
    "NOAUTH": errors.NoAuth,
    "WRONGPASS": errors.WrongPass,
    "NOPERM": errors.NoPermission,
    "NOTABLE": errors.NoTable,
    "bad-parameters": errors.BadParameters,
    "unknown-procedure": errors.UnknownProcedure,
    "id-mismatch": errors.IdMismatch,
    "id-from-future": errors.IdFuture,
    "id-invalid": errors.IdFormat,
    "id-required": errors.IdFormat,
    "unauthorized": errors.NoAuth,
    "token-invalid": errors.NoAuth,
    "forbidden": errors.NoPermission,
}


def error_of(id: Optional[str], error: AttemptError, may_have_applied: bool) -> errors.JetonError:
    """The error of a write with this id, or of a read if there is no id."""
    if id is not None:
        if error.code in ("IDEXPIRED", "id-expired"):
            return errors.IdExpired(id, error.text)
        if may_have_applied:
            return errors.UnknownOutcome(id, error.text)
    if error.result is AttemptResult.BUSY and not error.may_have_applied:
        return errors.Busy(error.text)
    if error.result in (AttemptResult.BUSY, AttemptResult.LOST) or not error.code:
        return errors.Unreachable(f"gave up at the deadline: {error.text}")
    return _REFUSALS.get(error.code, errors.Refused)(error.code, error.text)
