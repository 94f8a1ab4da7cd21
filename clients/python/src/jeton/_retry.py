"""The retry state machine of one request: when to send, to which server, how long to wait, when to give up.

Pure: the caller passes the time and random numbers in, and executes the returned actions. Times are seconds from any
fixed instant.

Invariants:

- No attempt starts at or after the end. The end is the deadline or half the window, whichever is earlier: a server
  never sees an id so old that its dedup record may have expired.
- Without `widen_after` at most one attempt is in flight, plus one hedge. With it at most one attempt is in flight to
  each server.
- A failure is definite only if no server can have received any attempt.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import List, Optional, Union

from ._errors import InvalidRequest


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff with full jitter, in seconds.

    The wait is uniform below a ceiling, which starts at `base` and doubles with each round up to `cap`.
    """

    base: float = 0.02
    cap: float = 2.0

    def ceiling(self, round: int) -> float:
        """The longest wait after `round` rounds."""
        return min(self.base * 2.0 ** min(round, 64), self.cap)

    def wait(self, round: int, random: float) -> float:
        """The wait after `round` rounds; `random` is uniform between 0 and 1."""
        return self.ceiling(round) * random


@dataclass(frozen=True)
class Policy:
    """The retry policy. Times are in seconds."""

    #: How long to try; without it, until the caller stops waiting.
    deadline: Optional[float] = 10.0
    #: How long the servers keep dedup records. No attempt starts after half of it.
    window: Optional[float] = 24 * 3600.0
    #: How long to wait for the response to one attempt.
    attempt_timeout: float = 2.0
    #: After this long without a response, send a second attempt to the next server.
    hedge_after: Optional[float] = None
    #: Send to one server first, and to all of them once it fails or after this long. Each server has its own backoff.
    #: Without it one server after the other receives the request, and all failures share one backoff.
    widen_after: Optional[float] = None
    backoff: Backoff = field(default_factory=Backoff)

    def check(self) -> None:
        if min(self.attempt_timeout, *(limit for limit in (self.deadline, self.window, 1.0) if limit is not None)) <= 0:
            raise InvalidRequest("deadline, attempt_timeout and window must not be zero")
        if min(self.backoff.base, self.backoff.cap) <= 0:
            # Without a wait between retries, clients would keep an overloaded server overloaded.
            raise InvalidRequest("backoff must not be zero")


@dataclass(frozen=True)
class Send:
    """Send the request to the server with this index."""

    attempt: int
    server: int


@dataclass(frozen=True)
class Abandon:
    """Give the attempt up, and report it as lost."""

    attempt: int


@dataclass(frozen=True)
class Wait:
    """Wait for a result, at most until this time, which may be infinite."""

    until: float


@dataclass(frozen=True)
class Answered:
    """The request ended with the response of this server to this attempt."""

    attempt: int
    server: int


@dataclass(frozen=True)
class Failed:
    """The request ended without a response; a server may have applied it, or may still apply it."""

    may_have_applied: bool


RetryOutcome = Union[Answered, Failed]
RetryAction = Union[Send, Abandon, Wait, Answered, Failed]


class AttemptResult(enum.Enum):
    """The result of one attempt."""

    #: The response to the request.
    ANSWERED = enum.auto()
    #: The server cannot serve the request now.
    BUSY = enum.auto()
    #: The server rejects the request; a retry would not help.
    REFUSED = enum.auto()
    #: The id belongs to another request: no attempt was applied, and none will be.
    NEVER_APPLIED = enum.auto()
    #: No response.
    LOST = enum.auto()


@dataclass
class _Lane:
    """A sequence of attempts with its own backoff: one for all servers, or with `widen_after` one for each."""

    #: When the next attempt may start, if none is in flight.
    next: float
    #: Failed attempts; an attempt and its hedge count as one.
    failures: int = 0
    is_hedged: bool = False


@dataclass(frozen=True)
class _Attempt:
    number: int
    lane: int
    server: int
    sent_at: float


class RetryState:
    """The state of one request. `may_have_applied` says that an earlier process may have sent the same request."""

    def __init__(
        self, policy: Policy, now: float, servers: int, first: int, may_have_applied: bool = False
    ) -> None:
        self.policy = policy
        limits = [policy.deadline, None if policy.window is None else policy.window / 2]
        self.end = now + min([limit for limit in limits if limit is not None], default=math.inf)
        self.attempts = 0
        self._servers = servers
        self._first = first % servers
        widen = policy.widen_after
        starts = [now] if widen is None else [now if at == self._first else now + widen for at in range(servers)]
        self._lanes = [_Lane(start) for start in starts]
        self._in_flight: List[_Attempt] = []  # Oldest first.
        self._may_have_applied = may_have_applied
        self._outcome: Optional[RetryOutcome] = None

    def step(self, now: float) -> RetryAction:
        """Returns the next action."""
        if self._outcome is not None:
            return self._outcome
        timeout = self.policy.attempt_timeout
        for attempt in self._in_flight:
            if now >= self.end or now >= attempt.sent_at + timeout:
                return Abandon(attempt.number)
        if now >= self.end or not (self._in_flight or any(lane.next < self.end for lane in self._lanes)):
            return self._finish(Failed(self._may_have_applied))
        until, due = self.end, []
        for lane in range(len(self._lanes)):
            start, oldest = self._next_start(lane), self._oldest_in(lane)
            if now >= start:
                due.append(lane)
            else:
                until = min(until, start, math.inf if oldest is None else oldest.sent_at + timeout)
        if not due:
            return Wait(until)
        # Several servers may be due: the first one goes first.
        return self._send(now, self._first if self._first in due else due[0])

    def report(
        self, now: float, attempt: int, result: AttemptResult, may_have_applied: bool, random: float
    ) -> None:
        """Records the result of an attempt; `random` is uniform between 0 and 1.

        `may_have_applied` is whether this attempt may have been applied. Results of attempts that are not in flight are
        ignored.
        """
        found = next((flight for flight in self._in_flight if flight.number == attempt), None)
        if found is None or self._outcome is not None:
            return
        self._in_flight.remove(found)
        if result is AttemptResult.ANSWERED:
            self._finish(Answered(attempt, found.server))
        elif result is AttemptResult.NEVER_APPLIED:
            self._finish(Failed(False))
        elif result is AttemptResult.REFUSED:
            # Another server may still apply an attempt that is in flight.
            self._finish(Failed(may_have_applied or self._may_have_applied or bool(self._in_flight)))
        else:
            self._may_have_applied |= may_have_applied
            if self._oldest_in(found.lane) is None:
                self._back_off(now, self._lanes[found.lane], result is AttemptResult.BUSY, random)

    def _back_off(self, now: float, lane: _Lane, is_busy: bool, random: float) -> None:
        """Schedules the next attempt of a lane after a failure."""
        servers_of_lane = self._servers // len(self._lanes)
        lane.is_hedged = False
        lane.failures += 1
        if not is_busy and lane.failures % servers_of_lane:
            # Another server may be reachable: try each of them once before waiting.
            lane.next = now
        else:
            lane.next = now + self.policy.backoff.wait((lane.failures - 1) // servers_of_lane, random)
        # Servers without an attempt so far waited for this one. A busy server suggests that the others are busy too; a
        # lost one does not.
        for other in self._lanes:
            if other.failures == 0:
                other.next = min(other.next, lane.next if is_busy else now)

    def _next_start(self, index: int) -> float:
        """When the lane starts its next attempt, unless a result arrives before: the retry, or the hedge."""
        lane, oldest = self._lanes[index], self._oldest_in(index)
        if oldest is None:
            return lane.next
        hedge_after = self.policy.hedge_after
        return math.inf if hedge_after is None or lane.is_hedged else oldest.sent_at + hedge_after

    def _oldest_in(self, lane: int) -> Optional[_Attempt]:
        return next((attempt for attempt in self._in_flight if attempt.lane == lane), None)

    def _send(self, now: float, lane: int) -> Send:
        number = self.attempts
        self.attempts += 1
        server = lane if len(self._lanes) == self._servers > 1 else (self._first + number) % self._servers
        self._lanes[lane].is_hedged = self._oldest_in(lane) is not None
        self._in_flight.append(_Attempt(number, lane, server, now))
        return Send(number, server)

    def _finish(self, outcome: RetryOutcome) -> RetryOutcome:
        self._outcome = outcome
        return outcome
