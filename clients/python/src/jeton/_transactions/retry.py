"""The retry state machine of one transaction.

Pure: the caller passes the time and the jitter in, and executes the returned steps. Times are seconds from any fixed
instant. One server receives the request first; all of them once it fails, or after `widen_after`. At most one attempt
is in flight to each server, and none starts at or after the end. A failure is definite only if no server can have
received any attempt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple, Union

from .._retry import Abandon, Backoff, Failed


@dataclass(frozen=True)
class TransactionPolicy:
    """The retry policy. Times are in seconds; without a deadline retries never end."""

    deadline: Optional[float] = None
    widen_after: float = 0.5
    # The server itself responds after 30 s by default if the outcome is still unknown.
    attempt_timeout: float = 40.0
    connect_timeout: float = 2.0
    backoff: Backoff = field(default_factory=lambda: Backoff(0.05, 5.0))


@dataclass(frozen=True)
class SendTo:
    """SendTo the server of this number."""

    attempt: int
    server: int
    first_time: bool


@dataclass(frozen=True)
class WaitUntil:
    """Wait for a result, at most until this time, which may be infinite."""

    until: float


@dataclass(frozen=True)
class AnsweredBy:
    """The request ended with the response of this server."""

    server: int


Step = Union[SendTo, Abandon, WaitUntil, AnsweredBy, Failed]


class FanOutRetryState:
    """The retry of one transaction. `new` says that nobody can have been asked about it before."""

    def __init__(self, policy: TransactionPolicy, now: float, servers: int, first: int, new: bool) -> None:
        self.policy = policy
        self.end = math.inf if policy.deadline is None else now + policy.deadline
        self._first = first % servers
        # When each is asked; those that are asked now are not in here.
        self._due: Dict[int, float] = {number: now + policy.widen_after for number in range(servers)}
        self._due[self._first] = now
        self._asked: Dict[int, Tuple[int, float]] = {}
        self._failures: List[int] = [0] * servers
        self._attempts = 0
        self._new = new
        # An earlier process may have sent the request.
        self._may_have_applied = not new
        self._over: Optional[Union[AnsweredBy, Failed]] = None

    def step(self, now: float) -> Step:
        """Returns the next step."""
        if self._over is not None:
            return self._over
        timeout = self.policy.attempt_timeout
        for attempt, since in self._asked.values():
            if now >= self.end or now >= since + timeout:
                return Abandon(attempt)
        if now >= self.end:
            self._over = Failed(self._may_have_applied)
            return self._over
        due = [number for number, time in self._due.items() if now >= time]
        if due:
            # Several servers may be due: the first one goes first.
            return self._ask(now, self._first if self._first in due else min(due))
        times = [since + timeout for _, since in self._asked.values()] + list(self._due.values())
        return WaitUntil(min(times + [self.end]))

    def answered(self, attempt: int, now: float) -> None:
        """Records the response."""
        server = self._land(attempt, now, 0.0)
        if server is not None:
            self._over = AnsweredBy(server)

    def refused(self, attempt: int, now: float) -> None:
        """Records a rejection."""
        if self._land(attempt, now, 0.0) is not None:
            # Another server may still execute an attempt that is in flight.
            self._over = Failed(self._may_have_applied or bool(self._asked))

    def busy(self, attempt: int, now: float, may_have_applied: bool, jitter: float) -> None:
        """Records that the server cannot respond now."""
        server = self._land(attempt, now, jitter)
        if server is not None:
            # A busy server suggests that the others are busy too.
            self._fail(self._due[server], may_have_applied)

    def lost(self, attempt: int, now: float, sent: bool, jitter: float) -> None:
        """Records that an attempt got no response."""
        if self._land(attempt, now, jitter) is not None:
            self._fail(now, sent)

    def _land(self, attempt: int, now: float, jitter: float) -> Optional[int]:
        """The server of a request that is over. None if it is not on its way: then the report says nothing new."""
        for server, (other, _) in self._asked.items():
            if other == attempt and self._over is None:
                del self._asked[server]
                self._due[server] = now + self.policy.backoff.wait(self._failures[server], jitter)
                self._failures[server] += 1
                return server
        return None

    def _fail(self, others_from: float, may_have_applied: bool) -> None:
        self._may_have_applied = self._may_have_applied or may_have_applied
        # Servers without an attempt so far waited for this one.
        for server, time in self._due.items():
            if self._failures[server] == 0:
                self._due[server] = min(time, others_from)

    def _ask(self, now: float, server: int) -> SendTo:
        attempt, first_time = self._attempts, self._new
        self._attempts += 1
        self._new = False
        del self._due[server]
        self._asked[server] = (attempt, now)
        return SendTo(attempt, server, first_time)
