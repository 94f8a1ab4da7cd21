"""The RESP protocol without I/O: encodes commands, parses replies."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

_STRING_BYTES_MAX = 16 << 20
_ELEMENTS_MAX = 1 << 20
_DEPTH_MAX = 32
_LINE_BYTES_MAX = 64 << 10


class ProtocolError(Exception):
    """The bytes are not a reply."""


class ErrorReply:
    """An error reply: a code in capitals and a description."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __repr__(self) -> str:
        return f"ErrorReply({self.message!r})"


class Push(List[Any]):
    """A push message: it is not a reply to a command."""


class _Incomplete(Exception):
    pass


def command(words: Sequence[bytes]) -> bytes:
    """Encodes a command; the first word is its name."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts.append(b"$%d\r\n%b\r\n" % (len(word), word))
    return b"".join(parts)


class Parser:
    """Parses the replies of one connection. Simple strings become `str`, bulk strings `bytes`."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Appends input."""
        self._buffer += data

    def replies(self) -> List[Any]:
        """Returns all complete replies in the input."""
        found: List[Any] = []
        while True:
            try:
                reply, end = self._value(0, 0)
            except _Incomplete:
                return found
            del self._buffer[:end]
            found.append(reply)

    def _line(self, at: int) -> Tuple[bytes, int]:
        end = self._buffer.find(b"\r\n", at)
        if end < 0:
            if len(self._buffer) - at > _LINE_BYTES_MAX:
                raise ProtocolError("a line is too long")
            raise _Incomplete
        return bytes(self._buffer[at:end]), end + 2

    def _number(self, text: bytes) -> int:
        try:
            return int(text)
        except ValueError:
            raise ProtocolError(f"not a number: {text[:40]!r}") from None

    def _value(self, at: int, depth: int) -> Tuple[Any, int]:
        if depth > _DEPTH_MAX:
            raise ProtocolError("arrays are nested too deeply")
        line, at = self._line(at)
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode("utf-8", "replace"), at
        if kind == b"-":
            return ErrorReply(rest.decode("utf-8", "replace")), at
        if kind == b":":
            return self._number(rest), at
        if kind == b"_":
            return None, at
        if kind == b"#":
            return rest == b"t", at
        if kind == b",":
            try:
                return float(rest), at
            except ValueError:
                raise ProtocolError(f"not a number: {rest[:40]!r}") from None
        if kind == b"(":
            return self._number(rest), at
        if kind in (b"$", b"!", b"="):
            text, at = self._string(self._number(rest), at)
            if kind == b"!" and text is not None:
                return ErrorReply(text.decode("utf-8", "replace")), at
            return (text[4:] if kind == b"=" and text is not None else text), at
        if kind in (b"*", b"~", b">", b"%", b"|"):
            return self._many(kind, self._number(rest), at, depth)
        raise ProtocolError(f"unknown type of reply: {kind!r}")

    def _string(self, length: int, at: int) -> Tuple[Optional[bytes], int]:
        if length == -1:
            return None, at
        if not 0 <= length <= _STRING_BYTES_MAX:
            raise ProtocolError("invalid length of a string")
        end = at + length
        if len(self._buffer) < end + 2:
            raise _Incomplete
        if self._buffer[end : end + 2] != b"\r\n":
            raise ProtocolError("a string is longer than its length")
        return bytes(self._buffer[at:end]), end + 2

    def _many(self, kind: bytes, length: int, at: int, depth: int) -> Tuple[Any, int]:
        if length == -1 and kind == b"*":
            return None, at
        if not 0 <= length <= _ELEMENTS_MAX:
            raise ProtocolError("invalid number of elements")
        values: List[Any] = []
        for _ in range(length * 2 if kind in (b"%", b"|") else length):
            value, at = self._value(at, depth + 1)
            values.append(value)
        if kind == b"|":
            # Attributes of a value come before the value; they are skipped.
            return self._value(at, depth + 1)
        if kind == b">":
            return Push(values), at
        # Only handshakes return maps, and no code reads them: a flat list of keys and values is enough.
        return values, at
