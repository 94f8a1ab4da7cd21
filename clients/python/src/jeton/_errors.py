"""The errors of an operation."""

from __future__ import annotations


class JetonError(Exception):
    """An operation failed. `certain` says whether it is certain that nothing changed, and that nothing will."""

    certain: bool = True


class UnknownOutcome(JetonError):
    """The outcome is unknown. A retry with the same id counts once; with another id it may count twice."""

    certain = False

    def __init__(self, id: str, last: str) -> None:
        super().__init__(f"the outcome of operation {id} is unknown ({last}); retry with the same id")
        self.id = id
        self.last = last


class IdExpired(JetonError):
    """The id is older than the window. The operation may have been counted earlier; it is not counted now."""

    certain = False

    def __init__(self, id: str, message: str) -> None:
        super().__init__(f"{message} (id {id})")
        self.id = id


class Busy(JetonError):
    """The server was overloaded or full until the deadline. Nothing changed."""


class Unreachable(JetonError):
    """No server was reachable until the deadline, or none responded to a read. Nothing changed."""


class InvalidRequest(JetonError, ValueError):
    """An argument is invalid. Nothing was sent."""


class Refused(JetonError):
    """The server rejected the operation. Nothing changed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class IdMismatch(Refused):
    """The id was used for another operation."""


class IdFuture(Refused):
    """The id is dated in the future; the client's or the server's clock is wrong."""


class IdRequired(Refused):
    """The table requires an id on every write."""


class IdFormat(Refused):
    """The table does not accept ids of this format."""


class NoSession(Refused):
    """The server does not know the session of a sequenced id."""


class Fenced(Refused):
    """A later incarnation of the same client has written."""


class NoAuth(Refused):
    """The server requires a token."""


class WrongPass(Refused):
    """The server does not know the token."""


class NoPermission(Refused):
    """The token lacks the right."""


class NoTable(Refused):
    """The table does not exist."""


class BadParameters(Refused):
    """A parameter of the procedure is missing, unknown, of the wrong type or out of range."""


class UnknownProcedure(Refused):
    """The server has no procedure of this name."""
