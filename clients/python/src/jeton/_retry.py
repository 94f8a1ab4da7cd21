"""The course of an operation: when to send, where to, when to wait, and when to give up.

Pure: what happens comes in, what to do goes out; times are seconds from any fixed moment. It knows nothing of ids:
it says that something is sent, and whoever drives it has only one thing to send. Nothing is sent at its end or
later; the end is the deadline or half the window, whichever comes first. It is over with a certain failure only if
no attempt can have been taken up by a server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional, Tuple, Union


@dataclass(frozen=True)
class Backoff:
    """How long to wait before the next attempt, in seconds.

    Any time up to a ceiling that begins with `base`, doubles with each round and ends at `cap`.
    """

    base: float = 0.02
    cap: float = 2.0

    def ceiling(self, round: int) -> float:
        """The longest wait after this many rounds."""
        return min(self.base * 2.0 ** min(round, 64), self.cap)

    def wait(self, round: int, chance: float) -> float:
        """A wait after this many rounds, by a chance between 0 and 1."""
        return self.ceiling(round) * chance


@dataclass(frozen=True)
class Policy:
    """How hard to try. Times are in seconds."""

    deadline: float = 10.0
    window: float = 24 * 3600.0
    attempt_timeout: float = 2.0
    hedge_after: Optional[float] = None
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True)
class Send:
    """Send it to the address of this number."""

    attempt: int
    address: int


@dataclass(frozen=True)
class Abandon:
    """Give this attempt up, and report whether it was sent."""

    attempt: int


@dataclass(frozen=True)
class Wait:
    """Wait for a report, but not beyond this time."""

    until: float


@dataclass(frozen=True)
class Answered:
    """Over: with the answer to this attempt."""

    attempt: int


@dataclass(frozen=True)
class Failed:
    """Over: with a failure, after which a server may have done it all the same, or not."""

    perhaps_done: bool


Step = Union[Send, Abandon, Wait, Answered, Failed]


class Course:
    """The course of one operation."""

    def __init__(self, policy: Policy, now: float, addresses: int, first: int) -> None:
        self.policy = policy
        self.end = now + min(policy.deadline, policy.window / 2)
        self.addresses = addresses
        self.first = first
        self.attempts = 0
        self._failures = 0
        self._flying: List[Tuple[int, float]] = []
        self._hedged = False
        self._next = now
        self._perhaps_done = False
        self._over: Optional[Union[Answered, Failed]] = None

    def step(self, now: float) -> Step:
        """What to do now."""
        if self._over is not None:
            return self._over
        timeout = self.policy.attempt_timeout
        for attempt, sent in self._flying:
            if now >= self.end or now >= sent + timeout:
                return Abandon(attempt)
        if not self._flying:
            if self._next >= self.end or now >= self.end:
                self._over = Failed(self._perhaps_done)
                return self._over
            return self._send(now) if now >= self._next else Wait(self._next)
        oldest = self._flying[0][1]
        until = min(self.end, oldest + timeout)
        if self.policy.hedge_after is not None and not self._hedged:
            hedge = oldest + self.policy.hedge_after
            if now >= hedge:
                self._hedged = True
                return self._send(now)
            until = min(until, hedge)
        return Wait(until)

    def answered(self, attempt: int) -> None:
        """There is an answer that is the answer."""
        if self._land(attempt):
            self._over = Answered(attempt)

    def settled(self, attempt: int) -> None:
        """No attempt was or will be done: the same id stands for something else."""
        if self._land(attempt):
            self._over = Failed(False)

    def refused(self, attempt: int, perhaps_done: bool) -> None:
        """The server will not do it."""
        if self._land(attempt):
            # A hedge that is still flying may be done after this refusal.
            self._over = Failed(perhaps_done or self._perhaps_done or bool(self._flying))

    def busy(self, attempt: int, now: float, perhaps_done: bool, chance: float) -> None:
        """The server cannot do it now."""
        if self._land(attempt):
            self._fail(now, True, perhaps_done, chance)

    def lost(self, attempt: int, now: float, sent: bool, chance: float) -> None:
        """There is no answer, and it may have been sent or not."""
        if self._land(attempt):
            self._fail(now, False, sent, chance)

    def _land(self, attempt: int) -> bool:
        """Takes an attempt from those that fly. False if it does not: then the report says nothing new."""
        before = len(self._flying)
        self._flying = [flight for flight in self._flying if flight[0] != attempt]
        return self._over is None and len(self._flying) < before

    def _fail(self, now: float, busy: bool, perhaps_done: bool, chance: float) -> None:
        self._perhaps_done = self._perhaps_done or perhaps_done
        if self._flying:
            return
        self._hedged = False
        self._failures += 1
        if not busy and self._failures % self.addresses:
            # Another address may be well: no reason to wait before all were tried.
            self._next = now
        else:
            self._next = now + self.policy.backoff.wait((self._failures - 1) // self.addresses, chance)

    def _send(self, now: float) -> Send:
        attempt = self.attempts
        self.attempts += 1
        self._flying.append((attempt, now))
        return Send(attempt, (self.first + attempt) % self.addresses)
