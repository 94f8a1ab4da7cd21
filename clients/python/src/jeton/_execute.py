"""What both clients share: where the servers are, how hard to try, and what a letter means for a course."""

from __future__ import annotations

import random
import ssl
from dataclasses import dataclass, field
from typing import Any, List, Optional, Sequence, Tuple, Union

from ._course import Backoff, Course, Policy
from ._errors import Failure, InvalidRequest, Weight
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
            raise InvalidRequest("deadline, attempt_timeout and window must be longer than nothing")
        if backoff is not None and min(backoff.base, backoff.cap) <= 0:
            # A client that does not wait keeps a server down that others wait for.
            raise InvalidRequest("backoff must be longer than nothing")
        policy = Policy(deadline, window, attempt_timeout, hedge_after, backoff or Backoff())
        return Settings([parse_address(one) for one in listed], policy, connections, tls, token)

    def greeting(self) -> bytes:
        """What is said first on a connection."""
        words = [b"HELLO", b"3"]
        if self.token is not None:
            words += [b"AUTH", b"default", self.token.encode()]
        return command(words)


class CannotConnect(Exception):
    """There is no connection to send on. Nothing was sent."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def check_greeting(reply: Any) -> None:
    """Whether the server let us in."""
    if isinstance(reply, ErrorReply):
        failure = Failure.said(reply.message)
        # A token that is not taken now will not be taken later; anything else may pass.
        if failure.code not in ("NOAUTH", "WRONGPASS", "NOPERM"):
            failure = Failure(reply.message)
        raise CannotConnect(failure)


class Stuck(Exception):
    """A course that ended without an answer."""

    def __init__(self, perhaps_done: bool, failure: Failure) -> None:
        super().__init__(failure.text)
        self.perhaps_done = perhaps_done
        self.failure = failure


class Drive:
    """A course, and what is known so far."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.answer: Any = None
        self.failure = Failure("no answer in time")

    def reply(self, attempt: int, reply: Any, now: float) -> None:
        """An answer to an attempt."""
        if not isinstance(reply, ErrorReply):
            self.answer = reply
            self.course.answered(attempt)
            return
        self.failure = Failure.said(reply.message)
        weight = self.failure.weight()
        if weight is Weight.LATER or weight is Weight.LATER_PERHAPS_DONE:
            self.course.busy(attempt, now, weight is Weight.LATER_PERHAPS_DONE, random.random())
        elif weight is Weight.SETTLED:
            self.course.settled(attempt)
        else:
            self.course.refused(attempt, weight is Weight.NEVER_PERHAPS_DONE)

    def lost(self, attempt: int, failure: Failure, sent: bool, now: float) -> None:
        """An attempt without an answer."""
        self.failure = failure
        if failure.code is not None and not sent:
            # Said before anything was sent: about the connection.
            self.course.refused(attempt, False)
        else:
            self.course.lost(attempt, now, sent, random.random())
