"""The errors of an operation."""

from __future__ import annotations

import enum
from typing import Dict, Optional, Type


class JetonError(Exception):
    """An operation failed. `certain` says whether it is certain that nothing changed, and that nothing will."""

    certain: bool = True


class UnknownOutcome(JetonError):
    """Whether the operation was counted is not known. SendTo again with the same id: it counts once.

    With another id it may count twice.
    """

    certain = False

    def __init__(self, id: str, last: str) -> None:
        super().__init__(
            f"whether the operation {id} was counted is not known ({last}); ask again with the same id"
        )
        self.id = id
        self.last = last


class IdExpired(JetonError):
    """The id is older than the table remembers. It may have been counted, or not, and will not be counted now."""

    certain = False

    def __init__(self, id: str, message: str) -> None:
        super().__init__(f"{message} (id {id})")
        self.id = id


class Busy(JetonError):
    """Up to the deadline the server had no time or no room for it. Nothing changed."""


class Unreachable(JetonError):
    """Up to the deadline there was nobody to send it to, or no answer to a read. Nothing changed."""


class InvalidRequest(JetonError, ValueError):
    """It cannot be sent as it is. Nothing was sent."""


class Refused(JetonError):
    """The server refused it. Nothing changed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class IdMismatch(Refused):
    """The id was used for another operation."""


class IdFuture(Refused):
    """The id is dated in the future: the clock here or there is wrong."""


class IdRequired(Refused):
    """The table wants an id on every write."""


class IdFormat(Refused):
    """The table does not take ids of this format."""


class NoSession(Refused):
    """Nothing is known of the session of a sequenced id."""


class Fenced(Refused):
    """A later life of the same client has written."""


class NoAuth(Refused):
    """The server wants a token."""


class WrongPass(Refused):
    """The server does not know the token."""


class NoPermission(Refused):
    """The token does not allow it."""


class NoTable(Refused):
    """There is no such table."""


class BadParameters(Refused):
    """The procedure cannot be asked with these parameters."""


class UnknownProcedure(Refused):
    """There is no such procedure."""


_REFUSALS: Dict[str, Type[Refused]] = {
    "IDMISMATCH": IdMismatch,
    "IDFUTURE": IdFuture,
    "IDREQUIRED": IdRequired,
    "IDFORMAT": IdFormat,
    "NOSESSION": NoSession,
    "FENCED": Fenced,
    "NOAUTH": NoAuth,
    "WRONGPASS": WrongPass,
    "NOPERM": NoPermission,
    "NOTABLE": NoTable,
}


class Retryability(enum.Enum):
    """What an answer with an error leaves open."""

    LATER = 1  # Nothing changed; ask again later.
    LATER_MAY_HAVE_APPLIED = 2  # Something may have changed; ask again later.
    NEVER = 3  # This attempt changed nothing, and another will not fare better.
    NEVER_MAY_HAVE_APPLIED = 4  # As NEVER, but this attempt may have changed something.
    NEVER_APPLIED = 5  # No attempt with this id has changed what was asked for, or will.


class AttemptError:
    """Why an attempt had no answer, or none that ends the operation."""

    def __init__(self, text: str, code: Optional[str] = None) -> None:
        self.text = text
        self.code = code

    @staticmethod
    def from_server(message: str) -> AttemptError:
        """What the server said instead of doing it."""
        return AttemptError(message, message.split(" ", 1)[0])

    def retryability(self) -> Retryability:
        if self.code in ("BUSY", "MISCONF"):
            return Retryability.LATER
        # A server that stops gives up what is under way, and does not know what became of it.
        if self.code in ("LOADING", "IDBUSY"):
            return Retryability.LATER_MAY_HAVE_APPLIED
        if self.code == "IDMISMATCH":
            return Retryability.NEVER_APPLIED
        # A write to disk that failed may still be there after a restart.
        if self.code == "STORAGE" or self.text.startswith("ERR storage"):
            return Retryability.NEVER_MAY_HAVE_APPLIED
        return Retryability.NEVER


def write_error(id: str, error: AttemptError, may_have_applied: bool) -> JetonError:
    """Why a write failed."""
    if error.code == "IDEXPIRED":
        return IdExpired(id, error.text)
    if may_have_applied:
        return UnknownOutcome(id, error.text)
    return read_error(error)


def read_error(error: AttemptError) -> JetonError:
    """Why a read failed, or a write that certainly changed nothing."""
    if error.code is None or error.code == "LOADING":
        return Unreachable(f"gave up at the deadline: {error.text}")
    if error.code in ("BUSY", "MISCONF"):
        return Busy(error.text)
    return _REFUSALS.get(error.code, Refused)(error.code, error.text)
