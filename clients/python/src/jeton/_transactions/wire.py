"""Requests and responses of transactions. Pure."""

from __future__ import annotations

import http.client
import io
import json
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple, Type, Union
from urllib.parse import urlsplit

from .._errors import (
    BadParameters,
    Busy,
    IdExpired,
    IdFormat,
    IdFuture,
    IdMismatch,
    InvalidRequest,
    JetonError,
    NoAuth,
    NoPermission,
    Refused,
    UnknownOutcome,
    UnknownProcedure,
    Unreachable,
)

_ID = re.compile(r"[0-9a-fA-F:-]+")
_PROCEDURE = re.compile(r"[a-z0-9_-]{1,48}")

#: Longer answers are none of ours.
RESPONSE_BYTES_MAX = 16 << 20

#: How many acks a session has: one that goes unanswered keeps those above it in memory.
_NUMBERS_MAX = 1 << 16


@dataclass(frozen=True)
class TransactionOutcome:
    """What became of a transaction. Whoever asks, and however often, is told the same.

    `outcome` is "done", "refused" (a rule of the procedure was broken), "failed" (a statement can never work) or
    "given-up" (every try failed). In the last three nothing has taken effect, and nothing will.
    """

    id: str
    outcome: str
    #: What the procedure returns, if it is done.
    result: Any = None
    #: Why it was not done, if it was not.
    reason: Optional[str] = None

    @property
    def done(self) -> bool:
        """Whether it has taken effect, once, in all databases."""
        return self.outcome == "done"


@dataclass(frozen=True)
class Problem:
    """Why a request has no answer that ends the transaction."""

    text: str
    #: The kind that the server named, if it named one.
    kind: Optional[str] = None
    #: Whether the server will not do it; otherwise it may, later.
    refused: bool = False
    #: Whether it may have taken it up.
    may_have_applied: bool = True


@dataclass(frozen=True)
class Request:
    """A transaction as it is asked for."""

    id: str
    procedure: str
    body: bytes
    acknowledged: Optional[int] = None
    new: bool = False

    @staticmethod
    def of(
        id: str, procedure: str, parameters: Mapping[str, Any], acknowledged: Optional[int], new: bool
    ) -> Request:
        if not _ID.fullmatch(id):
            raise InvalidRequest(
                f"{id!r}: the id of a transaction is a UUID of version 7, which may be followed by a colon and a number"
            )
        if not _PROCEDURE.fullmatch(procedure):
            raise InvalidRequest(f"{procedure!r}: the name of a procedure is 1 to 48 of a-z, 0-9, _ and -")
        try:
            body = json.dumps(dict(parameters), allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"the parameters cannot be JSON: {error}") from error
        return Request(id, procedure, body, acknowledged, new)

    def bytes_for(self, server: Server, token: Optional[str], first_time: bool) -> bytes:
        """What is sent to a server."""
        head = [
            f"POST /v1/transactions/{self.procedure} HTTP/1.1",
            f"Host: {server.authority}",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(self.body)}",
            f'Idempotency-Key: "{self.id}"',
        ]
        if first_time:
            head.append("Jeton-First-Time: true")
        if self.acknowledged is not None:
            head.append(f"Jeton-Acknowledged: {self.acknowledged}")
        if token is not None:
            head.append(f"Authorization: Bearer {token}")
        return "\r\n".join(head + ["", ""]).encode() + self.body


@dataclass(frozen=True)
class Server:
    """Where a server is."""

    host: str
    port: int
    authority: str

    @staticmethod
    def of(url: str) -> Server:
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme != "http" or not host or parts.path not in ("", "/") or parts.query or parts.username:
            raise InvalidRequest(f"{url!r} is not where a server is found, such as http://10.0.0.2:6381")
        return Server(host, 80 if port is None else port, parts.netloc)


def check_token(token: Optional[str]) -> None:
    """A token goes into a header."""
    if token is not None and not re.fullmatch(r"[!-~]+", token):
        raise InvalidRequest("the token has characters that no token has")


class _Bytes:
    """What looks like a connection to whoever only reads it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def whole(data: bytes) -> bool:
    """Whether an answer that says how long it is, is all there."""
    head, found, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length:\s*(\d+)", head, re.IGNORECASE)
    return bool(found) and length is not None and len(body) >= int(length.group(1))


def parse(data: bytes) -> Tuple[int, bytes]:
    """The status and the body of an answer. `http.client.HTTPException` if it is none, or is cut."""
    if not data:
        raise http.client.BadStatusLine("the server closed the connection")
    response = http.client.HTTPResponse(_Bytes(data))  # type: ignore[arg-type]
    response.begin()
    return response.status, response.read()


_BUSY = ("busy", "not-ready", "full", "throttled")


def read(id: str, status: int, body: bytes) -> Union[TransactionOutcome, Problem]:
    """What an answer says."""
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    said = said if isinstance(said, dict) else {}
    if status == 200:
        outcome = said.get("outcome")
        if outcome not in ("done", "refused", "failed", "given-up"):
            # Not from one of our servers, or cut by something in between.
            return Problem("an answer that makes no sense")
        return TransactionOutcome(id, outcome, said.get("result"), said.get("reason"))
    kind = str(said.get("type", "")).rsplit("/", 1)[-1]
    text = str(said.get("detail") or said.get("title") or f"the server answered {status}")
    if kind in _BUSY or status == 429:
        return Problem(text, "busy", may_have_applied=False)
    if status == 409 or status >= 500:
        return Problem(text, kind)
    return Problem(text, kind, refused=True)


_REFUSALS: Dict[str, Type[Refused]] = {
    "bad-parameters": BadParameters,
    "unknown-procedure": UnknownProcedure,
    "id-mismatch": IdMismatch,
    "id-from-future": IdFuture,
    "id-invalid": IdFormat,
    "unauthorized": NoAuth,
    "token-invalid": NoAuth,
    "forbidden": NoPermission,
}


def error_of(id: str, problem: Problem, may_have_applied: bool) -> JetonError:
    """Why there is no outcome."""
    if problem.kind == "id-expired":
        return IdExpired(id, problem.text)
    # Where the id stands for something else, this was never done, and never will be.
    if may_have_applied and problem.kind != "id-mismatch":
        return UnknownOutcome(id, problem.text)
    if problem.refused:
        kind = problem.kind or ""
        return _REFUSALS.get(kind, Refused)(kind, problem.text)
    if problem.kind == "busy":
        return Busy(problem.text)
    return Unreachable(f"gave up at the deadline: {problem.text}")


class AckWatermark:
    """The acks of a session: which request is next, and up to which all have their answers."""

    def __init__(self) -> None:
        self._next = 0
        self._answered_below = 0
        self._answered: Set[int] = set()

    def next(self) -> Optional[Tuple[int, Optional[int]]]:
        """The next number, and the highest up to which all were answered. None if there are no more acks."""
        if self._next >= _NUMBERS_MAX:
            return None
        self._next += 1
        return self._next - 1, self._answered_below - 1 if self._answered_below else None

    def answered(self, number: int) -> None:
        """That a request has its answer, and will not be asked for again."""
        self._answered.add(number)
        while self._answered_below in self._answered:
            self._answered.remove(self._answered_below)
            self._answered_below += 1


def servers_of(urls: Union[str, List[str], Tuple[str, ...]]) -> List[Server]:
    """Where the servers are."""
    listed = [urls] if isinstance(urls, str) else list(urls)
    if not 1 <= len(listed) <= 64:
        raise InvalidRequest("there must be 1 to 64 servers")
    return [Server.of(url) for url in listed]
