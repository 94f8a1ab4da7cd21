"""The course of a transaction as its client sees it: whom to ask, when, and when to give up.

Pure: what happens comes in, what to do goes out; times are seconds from any fixed moment. One server is asked
first. If it fails, or is silent for a while, all are asked at the same time, and each of them again and again; the
first decided answer is the answer. At most one question is on its way to each server, none is begun at the end or
later, and "for the first time" is said once. It is over with a certain failure only if no question can have been
taken up by a server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple, Union

from .._course import Abandon, Backoff, Failed


@dataclass(frozen=True)
class TransactionPolicy:
    """How hard to try. Times are in seconds; without a deadline for as long as somebody waits."""

    deadline: Optional[float] = None
    widen_after: float = 0.5
    # A server says by itself that there is no answer yet, after 30 s as it comes.
    attempt_timeout: float = 40.0
    connect_timeout: float = 2.0
    backoff: Backoff = field(default_factory=lambda: Backoff(0.05, 5.0))


@dataclass(frozen=True)
class Ask:
    """Ask the server of this number."""

    attempt: int
    server: int
    first_time: bool


@dataclass(frozen=True)
class WaitFor:
    """Wait for a report, but not beyond this time, which may be infinite."""

    until: float


@dataclass(frozen=True)
class AnsweredBy:
    """Over: with the answer of this server."""

    server: int


Step = Union[Ask, Abandon, WaitFor, AnsweredBy, Failed]


class Canvass:
    """The course of one transaction. `new` says that nobody can have been asked about it before."""

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
        # Whoever asked before may have been heard.
        self._perhaps_done = not new
        self._over: Optional[Union[AnsweredBy, Failed]] = None

    def step(self, now: float) -> Step:
        """What to do now."""
        if self._over is not None:
            return self._over
        timeout = self.policy.attempt_timeout
        for attempt, since in self._asked.values():
            if now >= self.end or now >= since + timeout:
                return Abandon(attempt)
        if now >= self.end:
            self._over = Failed(self._perhaps_done)
            return self._over
        due = [number for number, time in self._due.items() if now >= time]
        if due:
            # The first one before all others, which may be due at the same time.
            return self._ask(now, self._first if self._first in due else min(due))
        times = [since + timeout for _, since in self._asked.values()] + list(self._due.values())
        return WaitFor(min(times + [self.end]))

    def answered(self, attempt: int, now: float) -> None:
        """It is decided, and this is the answer."""
        server = self._land(attempt, now, 0.0)
        if server is not None:
            self._over = AnsweredBy(server)

    def refused(self, attempt: int, now: float) -> None:
        """The server will not do it."""
        if self._land(attempt, now, 0.0) is not None:
            # Another may be at work on it, or have answered and not been heard.
            self._over = Failed(self._perhaps_done or bool(self._asked))

    def busy(self, attempt: int, now: float, perhaps_done: bool, chance: float) -> None:
        """The server cannot answer now."""
        server = self._land(attempt, now, chance)
        if server is not None:
            # It is there, and has its hands full: so may the others.
            self._fail(self._due[server], perhaps_done)

    def lost(self, attempt: int, now: float, sent: bool, chance: float) -> None:
        """There is no answer, and it may have been sent or not."""
        if self._land(attempt, now, chance) is not None:
            self._fail(now, sent)

    def _land(self, attempt: int, now: float, chance: float) -> Optional[int]:
        """The server of a question that is over. None if it is not on its way: then the report says nothing new."""
        for server, (other, _) in self._asked.items():
            if other == attempt and self._over is None:
                del self._asked[server]
                self._due[server] = now + self.policy.backoff.wait(self._failures[server], chance)
                self._failures[server] += 1
                return server
        return None

    def _fail(self, others_from: float, perhaps_done: bool) -> None:
        self._perhaps_done = self._perhaps_done or perhaps_done
        # Those that nobody has asked yet were waiting for this one.
        for server, time in self._due.items():
            if self._failures[server] == 0:
                self._due[server] = min(time, others_from)

    def _ask(self, now: float, server: int) -> Ask:
        attempt, first_time = self._attempts, self._new
        self._attempts += 1
        self._new = False
        del self._due[server]
        self._asked[server] = (attempt, now)
        return Ask(attempt, server, first_time)
