"""Commands to the server and its replies. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Callable, Iterable, List, Mapping, Optional, Tuple, TypeVar, Union

from ._errors import InvalidRequest
from ._execute import AttemptError
from ._resp import ErrorReply, command
from ._retry import AttemptResult

T = TypeVar("T")

Key = Union[str, bytes]
Changes = Union[Mapping[str, int], Iterable[Tuple[Key, int]]]

_KEY_BYTES_MAX = 64 + 1 + 1024
_VALUE_BYTES_MAX = 64 << 10
_CHANGES_MAX = 256
_ID_BYTES_MAX = 640


class Status(str, enum.Enum):
    """Whether an operation took effect."""

    APPLIED = "applied"
    #: A bound refused it; the server stores the refusal under its id.
    REFUSED = "refused"
    #: The filter of a probabilistic table contains its id: it did not take effect now. Not final: a later retry
    #: may be `APPLIED`.
    PROBABLY_SEEN = "probably-seen"


@dataclass(frozen=True)
class _Write:
    id: str
    status: Status
    #: Whether this is the stored result of an earlier attempt.
    replayed: bool
    #: Whether a crash of the server may still undo it: the table has relaxed durability.
    relaxed: bool

    @property
    def applied(self) -> bool:
        """Whether it was counted, by this attempt or an earlier one."""
        return self.status is Status.APPLIED


@dataclass(frozen=True)
class Outcome(_Write):
    """The result of a write."""

    #: The counter afterwards. None after a delete, for bytes, and for `PROBABLY_SEEN`.
    value: Optional[int]


@dataclass(frozen=True)
class ManyOutcome(_Write):
    """The result of a write to several counters."""

    #: The counters afterwards, in the order of the request.
    values: List[Optional[int]]


@dataclass(frozen=True)
class OperationStatus:
    """What a server knows about an id: `known`, `unknown`, `forgotten` or `probably-seen`."""

    status: str
    #: For a known id: whether the operation took effect; otherwise a bound refused it.
    applied: Optional[bool] = None
    #: For a known id: the counters afterwards.
    values: Optional[List[Optional[int]]] = None
    #: For a known id: when it was decided, in milliseconds since 1970.
    millis: Optional[int] = None


class UnexpectedReply(Exception):
    """A reply that does not fit the request."""


def as_key(key: Key) -> bytes:
    """Encodes a key."""
    data = key.encode() if isinstance(key, str) else bytes(key)
    if not 1 <= len(data) <= _KEY_BYTES_MAX:
        raise InvalidRequest(f"a key has 1 to {_KEY_BYTES_MAX} bytes")
    return data


def _number(number: int) -> bytes:
    if not -(1 << 63) <= number < 1 << 63:
        raise InvalidRequest("a number has at most 64 bits")
    return b"%d" % number


def as_id(id: str) -> bytes:
    """Encodes an id."""
    data = id.encode()
    if not 1 <= len(data) <= _ID_BYTES_MAX:
        raise InvalidRequest(f"an id has 1 to {_ID_BYTES_MAX} bytes")
    return data


def add(key: Key, delta: int, id: str, min: Optional[int], max: Optional[int]) -> bytes:
    words = [b"JADD", as_key(key), _number(delta), b"ID", as_id(id)]
    if min is not None:
        words += [b"MIN", _number(min)]
    if max is not None:
        words += [b"MAX", _number(max)]
    return command(words)


def pairs(changes: Changes) -> List[Tuple[Key, int]]:
    """The changes, in order."""
    listed: List[Tuple[Key, int]] = []
    listed.extend(changes.items() if isinstance(changes, Mapping) else changes)
    if not 1 <= len(listed) <= _CHANGES_MAX:
        raise InvalidRequest(f"one operation changes 1 to {_CHANGES_MAX} counters")
    return listed


def add_many(changes: Changes, id: str) -> bytes:
    words = [b"JMADD", b"ID", as_id(id)]
    for key, delta in pairs(changes):
        words += [as_key(key), _number(delta)]
    return command(words)


def as_value(value: Union[int, str, bytes]) -> bytes:
    """Encodes a value."""
    if isinstance(value, int):
        return _number(value)
    data = value.encode() if isinstance(value, str) else bytes(value)
    if len(data) > _VALUE_BYTES_MAX:
        raise InvalidRequest(f"a value has at most {_VALUE_BYTES_MAX} bytes")
    return data


def set_(key: Key, value: Union[int, str, bytes], id: str) -> bytes:
    return command([b"JSET", as_key(key), as_value(value), b"ID", as_id(id)])


def reset(key: Key, id: str) -> bytes:
    return command([b"JRESET", as_key(key), b"ID", as_id(id)])


def delete(key: Key, id: str) -> bytes:
    return command([b"JDEL", as_key(key), b"ID", as_id(id)])


def get(key: Key) -> bytes:
    return command([b"JGET", as_key(key)])


def operation(key: Key, id: str) -> bytes:
    return command([b"JOP", as_key(key), as_id(id)])


_WORDS = {
    "applied": (Status.APPLIED, False),
    "replayed": (Status.APPLIED, True),
    "refused": (Status.REFUSED, False),
    "refused-replayed": (Status.REFUSED, True),
    "probably-seen": (Status.PROBABLY_SEEN, True),
}


def _is_optional(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _parts(reply: Any) -> Tuple[Any, Status, bool, bool]:
    if isinstance(reply, list) and len(reply) in (2, 3) and isinstance(reply[1], str) and reply[1] in _WORDS:
        if len(reply) == 2 or reply[2] == "relaxed":
            status, replayed = _WORDS[reply[1]]
            return reply[0], status, replayed, len(reply) == 3
    raise UnexpectedReply(repr(reply)[:200])


def parse_outcome(reply: Any, id: str) -> Outcome:
    value, status, replayed, relaxed = _parts(reply)
    if not _is_optional(value):
        raise UnexpectedReply(repr(reply)[:200])
    return Outcome(id, status, replayed, relaxed, value)


def parse_many(reply: Any, id: str) -> ManyOutcome:
    values, status, replayed, relaxed = _parts(reply)
    if values is None:
        values = []
    if not isinstance(values, list) or not all(map(_is_optional, values)):
        raise UnexpectedReply(repr(reply)[:200])
    return ManyOutcome(id, status, replayed, relaxed, values)


def parse_any(reply: Any, id: str) -> ManyOutcome:
    """Parses the reply to a write to one or several counters."""
    value = _parts(reply)[0]
    if isinstance(value, list):
        return parse_many(reply, id)
    return parse_many([[value], *reply[1:]], id)


def parse_stored_value(reply: Any) -> Union[int, bytes, None]:
    if _is_optional(reply) or isinstance(reply, bytes):
        value: Union[int, bytes, None] = reply
        return value
    raise UnexpectedReply(repr(reply)[:200])


def parse_operation_status(reply: Any) -> OperationStatus:
    if isinstance(reply, list) and reply:
        if len(reply) == 1 and reply[0] in ("unknown", "forgotten", "probably-seen"):
            return OperationStatus(reply[0])
        if len(reply) == 3 and reply[0] in ("applied", "refused") and isinstance(reply[1], list):
            if all(map(_is_optional, reply[1])) and isinstance(reply[2], int):
                return OperationStatus("known", reply[0] == "applied", reply[1], reply[2])
    raise UnexpectedReply(repr(reply)[:200])


def server_error(message: str) -> AttemptError:
    """An error reply, and what it means for retries."""
    code = message.split(" ", 1)[0]
    if code in ("BUSY", "MISCONF"):
        return AttemptError(message, code, AttemptResult.BUSY, may_have_applied=False)
    # A server that stops drops the operations in flight, and does not know their outcome.
    if code in ("LOADING", "IDBUSY"):
        return AttemptError(message, code, AttemptResult.BUSY)
    if code == "IDMISMATCH":
        return AttemptError(message, code, AttemptResult.NEVER_APPLIED)
    # A write that failed may still be on disk after a restart.
    is_storage = code == "STORAGE" or message.startswith("ERR storage")
    return AttemptError(message, code, AttemptResult.REFUSED, may_have_applied=is_storage)


def parse_response(reply: Any, parse: Callable[[Any], T]) -> Union[T, AttemptError]:
    """Parses a reply to a command."""
    if isinstance(reply, ErrorReply):
        return server_error(reply.message)
    try:
        return parse(reply)
    except UnexpectedReply as unexpected:
        # The server may have sent it after it applied the command.
        return AttemptError(f"unexpected reply: {unexpected}", result=AttemptResult.REFUSED)
