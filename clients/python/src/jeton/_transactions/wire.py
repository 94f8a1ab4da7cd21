"""Requests and responses of transactions. Pure."""

from __future__ import annotations

import http.client
import io
import json
import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Set, Tuple, Union
from urllib.parse import urlsplit

from .._errors import InvalidRequest
from .._execute import AttemptError
from .._retry import AttemptResult

_ID = re.compile(r"[0-9a-fA-F:-]+")
_PROCEDURE = re.compile(r"[a-z0-9_-]{1,48}")

#: No Jeton server sends a longer response.
RESPONSE_BYTES_MAX = 16 << 20

#: Requests of one session. The limit bounds `_answered`: one unanswered request keeps all later ones in it.
_NUMBERS_MAX = 1 << 16


@dataclass(frozen=True)
class TransactionOutcome:
    """The outcome of a transaction. Every retry returns the same outcome.

    `outcome` is "done", "refused" (a guard of the procedure refused it), "failed" (a statement failed permanently) or
    "given-up" (every attempt of the servers failed). In the last three nothing takes effect.
    """

    id: str
    outcome: str
    #: The procedure's result, if it is done.
    result: Any = None
    #: Why it is not done.
    reason: Optional[str] = None

    @property
    def done(self) -> bool:
        """Whether the transaction took effect, once, in all databases."""
        return self.outcome == "done"


@dataclass(frozen=True)
class Request:
    """A request to execute a transaction."""

    id: str
    procedure: str
    body: bytes
    #: All requests of the session up to this number are answered.
    acknowledged: Optional[int] = None
    #: Whether no earlier process can have sent it.
    is_new: bool = False

    @staticmethod
    def of(
        id: str, procedure: str, parameters: Mapping[str, Any], acknowledged: Optional[int], is_new: bool
    ) -> Request:
        if not _ID.fullmatch(id):
            raise InvalidRequest(
                f"{id!r}: the id of a transaction is a UUID of version 7, optionally with a colon and a number"
            )
        if not _PROCEDURE.fullmatch(procedure):
            raise InvalidRequest(f"{procedure!r}: the name of a procedure is 1 to 48 of a-z, 0-9, _ and -")
        try:
            body = json.dumps(dict(parameters), allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"the parameters are not JSON: {error}") from error
        return Request(id, procedure, body, acknowledged, is_new)

    def encode(self, server: Server, token: Optional[str], is_first: bool) -> bytes:
        """The HTTP request to a server. `is_first`: it is the first attempt."""
        head = [
            f"POST /v1/transactions/{self.procedure} HTTP/1.1",
            f"Host: {server.authority}",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(self.body)}",
            f'Idempotency-Key: "{self.id}"',
        ]
        if is_first and self.is_new:
            head.append("Jeton-First-Time: true")
        if self.acknowledged is not None:
            head.append(f"Jeton-Acknowledged: {self.acknowledged}")
        if token is not None:
            head.append(f"Authorization: Bearer {token}")
        return "\r\n".join(head + ["", ""]).encode() + self.body


@dataclass(frozen=True)
class Server:
    """The address of a server."""

    host: str
    port: int
    authority: str
    encrypted: bool

    @staticmethod
    def of(url: str) -> Server:
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        is_valid = parts.scheme in ("http", "https") and host and parts.path in ("", "/")
        if not is_valid or host is None or parts.query or parts.username:
            raise InvalidRequest(f"{url!r} is not the URL of a server, such as http://10.0.0.2:6381")
        encrypted = parts.scheme == "https"
        default = 443 if encrypted else 80
        return Server(host, default if port is None else port, parts.netloc, encrypted)


def check_token(token: Optional[str]) -> None:
    """Rejects tokens that would change the header they are put into."""
    if token is not None and not re.fullmatch(r"[!-~]+", token):
        raise InvalidRequest("the token contains invalid characters")


class _Socket:
    """The part of a socket that `http.client.HTTPResponse` reads from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def is_complete(data: bytes) -> bool:
    """Whether a response with a length is complete. One without a length ends with its connection."""
    head, found, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length:\s*(\d+)", head, re.IGNORECASE)
    return bool(found) and length is not None and len(body) >= int(length.group(1))


def parse(data: bytes) -> Tuple[int, bytes]:
    """The status and the body of a response. Raises `http.client.HTTPException` if it is malformed or truncated."""
    if not data:
        raise http.client.BadStatusLine("the server closed the connection")
    response = http.client.HTTPResponse(_Socket(data))  # type: ignore[arg-type]
    response.begin()
    return response.status, response.read()


def parse_outcome(id: str, status: int, body: bytes) -> Union[TransactionOutcome, AttemptError]:
    """Parses a response."""
    try:
        parsed = json.loads(body)
    except ValueError:
        parsed = None
    fields = parsed if isinstance(parsed, dict) else {}
    if status == 200:
        outcome = fields.get("outcome")
        if outcome not in ("done", "refused", "failed", "given-up"):
            # Not a Jeton server, or a proxy truncated the body.
            return AttemptError("unexpected reply: unknown outcome", result=AttemptResult.BUSY)
        return TransactionOutcome(id, outcome, fields.get("result"), fields.get("reason"))
    code = str(fields.get("type", "")).rsplit("/", 1)[-1] or str(status)
    text = str(fields.get("detail") or fields.get("title") or f"the server responded with status {status}")
    if code in ("busy", "not-ready", "full", "throttled") or status == 429:
        return AttemptError(text, code, AttemptResult.BUSY, may_have_applied=False)
    if status == 409 or status >= 500:
        return AttemptError(text, code, AttemptResult.BUSY)
    result = AttemptResult.NEVER_APPLIED if code == "id-mismatch" else AttemptResult.REFUSED
    return AttemptError(text, code, result, may_have_applied=False)


class AckWatermark:
    """The request numbers of a session: the next one, and the highest below which all are answered."""

    def __init__(self) -> None:
        self._next = 0
        self._answered_below = 0
        self._answered: Set[int] = set()

    def next(self) -> Optional[Tuple[int, Optional[int]]]:
        """The number of the next request, and the highest number up to which all requests are answered.

        Returns None when the session has no more numbers.
        """
        if self._next >= _NUMBERS_MAX:
            return None
        self._next += 1
        return self._next - 1, self._answered_below - 1 if self._answered_below else None

    def answered(self, number: int) -> None:
        """Records that a request is answered and will not be retried."""
        self._answered.add(number)
        while self._answered_below in self._answered:
            self._answered.remove(self._answered_below)
            self._answered_below += 1
