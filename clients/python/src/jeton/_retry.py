"""The retry state machine of one operation: when to send, to which address, how long to wait, when to give up.

Pure: the caller passes the time and the jitter in, and executes the returned steps. Times are seconds from any fixed
instant. No attempt starts at or after the end, which is the deadline or half the window, whichever is earlier. A
failure is definite only if no server can have received any attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional, Tuple, Union


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

    def wait(self, round: int, jitter: float) -> float:
        """The wait after `round` rounds; `jitter` is uniform between 0 and 1."""
        return self.ceiling(round) * jitter


@dataclass(frozen=True)
class Policy:
    """The retry policy. Times are in seconds."""

    deadline: float = 10.0
    window: float = 24 * 3600.0
    attempt_timeout: float = 2.0
    hedge_after: Optional[float] = None
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True)
class Send:
    """Send the request to the address with this index."""

    attempt: int
    address: int


@dataclass(frozen=True)
class Abandon:
    """Give the attempt up, and report whether it was sent."""

    attempt: int


@dataclass(frozen=True)
class Wait:
    """Wait for a result, at most until this time."""

    until: float


@dataclass(frozen=True)
class Answered:
    """The request ended with the response to this attempt."""

    attempt: int


@dataclass(frozen=True)
class Failed:
    """The request ended without a response; a server may have applied it."""

    may_have_applied: bool


Step = Union[Send, Abandon, Wait, Answered, Failed]


class RetryState:
    """The state of one operation."""

    def __init__(self, policy: Policy, now: float, addresses: int, first: int) -> None:
        self.policy = policy
        self.end = now + min(policy.deadline, policy.window / 2)
        self.addresses = addresses
        self.first = first
        self.attempts = 0
        self._failures = 0
        self._in_flight: List[Tuple[int, float]] = []
        self._hedged = False
        self._next = now
        self._may_have_applied = False
        self._over: Optional[Union[Answered, Failed]] = None

    def step(self, now: float) -> Step:
        """Returns the next step."""
        if self._over is not None:
            return self._over
        timeout = self.policy.attempt_timeout
        for attempt, sent in self._in_flight:
            if now >= self.end or now >= sent + timeout:
                return Abandon(attempt)
        if not self._in_flight:
            if self._next >= self.end or now >= self.end:
                self._over = Failed(self._may_have_applied)
                return self._over
            return self._send(now) if now >= self._next else Wait(self._next)
        oldest = self._in_flight[0][1]
        until = min(self.end, oldest + timeout)
        if self.policy.hedge_after is not None and not self._hedged:
            hedge = oldest + self.policy.hedge_after
            if now >= hedge:
                self._hedged = True
                return self._send(now)
            until = min(until, hedge)
        return Wait(until)

    def answered(self, attempt: int) -> None:
        """Records the response."""
        if self._land(attempt):
            self._over = Answered(attempt)

    def never_applied(self, attempt: int) -> None:
        """Records that the id belongs to another operation: no attempt was or will be applied."""
        if self._land(attempt):
            self._over = Failed(False)

    def refused(self, attempt: int, may_have_applied: bool) -> None:
        """Records a rejection."""
        if self._land(attempt):
            # A hedge that is still in_flight may be done after this refusal.
            self._over = Failed(may_have_applied or self._may_have_applied or bool(self._in_flight))

    def busy(self, attempt: int, now: float, may_have_applied: bool, jitter: float) -> None:
        """Records that the server cannot serve the request now."""
        if self._land(attempt):
            self._fail(now, True, may_have_applied, jitter)

    def lost(self, attempt: int, now: float, sent: bool, jitter: float) -> None:
        """Records that an attempt got no response."""
        if self._land(attempt):
            self._fail(now, False, sent, jitter)

    def _land(self, attempt: int) -> bool:
        """Removes an attempt that is in flight. Returns False if it is not; then the result is ignored."""
        before = len(self._in_flight)
        self._in_flight = [flight for flight in self._in_flight if flight[0] != attempt]
        return self._over is None and len(self._in_flight) < before

    def _fail(self, now: float, busy: bool, may_have_applied: bool, jitter: float) -> None:
        self._may_have_applied = self._may_have_applied or may_have_applied
        if self._in_flight:
            return
        self._hedged = False
        self._failures += 1
        if not busy and self._failures % self.addresses:
            # Another address may be reachable: try each of them once before waiting.
            self._next = now
        else:
            self._next = now + self.policy.backoff.wait((self._failures - 1) // self.addresses, jitter)

    def _send(self, now: float) -> Send:
        attempt = self.attempts
        self.attempts += 1
        self._in_flight.append((attempt, now))
        return Send(attempt, (self.first + attempt) % self.addresses)
