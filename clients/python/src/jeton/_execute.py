"""Shared by both clients: settings, and the meaning of replies for retries."""

from __future__ import annotations

import random
import ssl
from dataclasses import dataclass, field
from typing import Any, List, Optional, Sequence, Tuple, Union

from ._retry import Backoff, RetryState, Policy
from ._errors import AttemptError, InvalidRequest, Retryability
from ._resp import ErrorReply, command

Addresses = Union[str, Sequence[str]]


def parse_address(address: str) -> Tuple[str, int]:
    """`host:port`, or `[host]:port` with colons in the host."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise InvalidRequest(f"an address is written host:port, not {address!r}")
    return host, int(port)


@dataclass(frozen=True)
class Settings:
    """What was chosen about a client. A token does not show when it is printed."""

    addresses: List[Tuple[str, int]]
    policy: Policy
    connections: int
    tls: Optional[ssl.SSLContext]
    token: Optional[str] = field(default=None, repr=False)

    @staticmethod
    def of(
        addresses: Addresses,
        token: Optional[str],
        deadline: float,
        attempt_timeout: float,
        hedge_after: Optional[float],
        backoff: Optional[Backoff],
        connections: int,
        window: float,
        tls: Optional[ssl.SSLContext],
    ) -> Settings:
        listed = [addresses] if isinstance(addresses, str) else list(addresses)
        if not 1 <= len(listed) <= 64:
            raise InvalidRequest("there must be 1 to 64 addresses")
        if not 1 <= connections <= 1024:
            raise InvalidRequest("connections must be between 1 and 1024")
        if min(deadline, attempt_timeout, window) <= 0:
            raise InvalidRequest("deadline, attempt_timeout and window must not be zero")
        if backoff is not None and min(backoff.base, backoff.cap) <= 0:
            # A client that does not wait keeps a server down that others wait for.
            raise InvalidRequest("backoff must not be zero")
        policy = Policy(deadline, window, attempt_timeout, hedge_after, backoff or Backoff())
        return Settings([parse_address(one) for one in listed], policy, connections, tls, token)

    def handshake(self) -> bytes:
        """What is said first on a connection."""
        words = [b"HELLO", b"3"]
        if self.token is not None:
            words += [b"AUTH", b"default", self.token.encode()]
        return command(words)


class CannotConnect(Exception):
    """There is no connection to send on. Nothing was sent."""

    def __init__(self, error: AttemptError) -> None:
        super().__init__(error.text)
        self.error = error


def check_handshake(reply: Any) -> None:
    """Whether the server let us in."""
    if isinstance(reply, ErrorReply):
        error = AttemptError.from_server(reply.message)
        # A token that is not taken now will not be taken later; anything else may pass.
        if error.code not in ("NOAUTH", "WRONGPASS", "NOPERM"):
            error = AttemptError(reply.message)
        raise CannotConnect(error)


class RetriesExhausted(Exception):
    """A retry that ended without an answer."""

    def __init__(self, may_have_applied: bool, error: AttemptError) -> None:
        super().__init__(error.text)
        self.may_have_applied = may_have_applied
        self.error = error


class Execution:
    """A retry, and what is known so far."""

    def __init__(self, retry: RetryState) -> None:
        self.retry = retry
        self.answer: Any = None
        self.error = AttemptError("no response in time")

    def reply(self, attempt: int, reply: Any, now: float) -> None:
        """An answer to an attempt."""
        if not isinstance(reply, ErrorReply):
            self.answer = reply
            self.retry.answered(attempt)
            return
        self.error = AttemptError.from_server(reply.message)
        retryability = self.error.retryability()
        if retryability is Retryability.LATER or retryability is Retryability.LATER_MAY_HAVE_APPLIED:
            self.retry.busy(attempt, now, retryability is Retryability.LATER_MAY_HAVE_APPLIED, random.random())
        elif retryability is Retryability.NEVER_APPLIED:
            self.retry.never_applied(attempt)
        else:
            self.retry.refused(attempt, retryability is Retryability.NEVER_MAY_HAVE_APPLIED)

    def lost(self, attempt: int, error: AttemptError, sent: bool, now: float) -> None:
        """An attempt without an answer."""
        self.error = error
        if error.code is not None and not sent:
            # Said before anything was sent: about the connection.
            self.retry.refused(attempt, False)
        else:
            self.retry.lost(attempt, now, sent, random.random())
