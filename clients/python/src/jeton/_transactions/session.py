"""A session: requests that are numbered, so that servers can forget what has been answered."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from .._course import Backoff
from .._errors import InvalidRequest, JetonError
from .._mint import SystemMint
from .course import Canvass, TransactionPolicy
from .words import Numbers, Problem, Question, Server, TransactionOutcome, check_token, error_of, read, servers_of

Urls = Union[str, Sequence[str]]


class Book:
    """The numbers of now, from any thread and in children of a fork too; under a new id from time to time.

    Servers refuse sessions that are older than their window.
    """

    def __init__(self, mint: SystemMint, renew_after: float) -> None:
        self._mint = mint
        self._renew_after = renew_after
        self._lock = threading.Lock()
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._id = self._mint.next()
        self._begun = time.monotonic()
        self._numbers = Numbers()

    def next(self, procedure: str, parameters: Mapping[str, Any]) -> Tuple[Question, Place]:
        """The next request, and its place among the others."""
        if self._pid != os.getpid():
            # The parent goes on under the same id: the child must begin anew.
            self._lock = threading.Lock()
            self._renew()
        with self._lock:
            if time.monotonic() - self._begun >= self._renew_after:
                self._renew()
            found = self._numbers.next()
            while found is None:
                self._renew()
                found = self._numbers.next()
            number, acknowledged = found
            question = Question.of(f"{self._id}:{number}", procedure, parameters, acknowledged, True)
            return question, Place(self._lock, self._numbers, number)


class Place:
    """The place of a request in its session."""

    def __init__(self, lock: threading.Lock, numbers: Numbers, number: int) -> None:
        self._lock, self._numbers, self._number = lock, numbers, number

    def settle(self, error: Optional[BaseException]) -> None:
        """What has its answer, or is certainly not done, will not be asked for again."""
        if error is None or (isinstance(error, JetonError) and error.certain):
            with self._lock:
                self._numbers.answered(self._number)


class Base:
    """What both clients of transactions share."""

    def __init__(
        self,
        servers: Urls,
        *,
        token: Optional[str] = None,
        deadline: Optional[float] = None,
        widen_after: float = 0.5,
        attempt_timeout: float = 40.0,
        connect_timeout: float = 2.0,
        backoff: Optional[Backoff] = None,
        renew_after: float = 3600.0,
    ) -> None:
        self._servers: List[Server] = servers_of(servers if isinstance(servers, str) else list(servers))
        check_token(token)
        backoff = backoff or TransactionPolicy().backoff
        if min(attempt_timeout, connect_timeout, renew_after, 1.0 if deadline is None else deadline) <= 0:
            raise InvalidRequest(
                "deadline, attempt_timeout, connect_timeout and renew_after must be longer than nothing"
            )
        if min(backoff.base, backoff.cap) <= 0:
            # A client that does not wait keeps a server down that others wait for.
            raise InvalidRequest("backoff must be longer than nothing")
        self._token = token
        self._policy = TransactionPolicy(deadline, widen_after, attempt_timeout, connect_timeout, backoff)
        self._mint = SystemMint(False)
        self._renew_after = renew_after
        self._preferred = 0
        self._own = self._book()

    def _book(self) -> Book:
        return Book(self._mint, self._renew_after)

    def _drive(self, question: Question, deadline: Optional[float]) -> Drive:
        policy = self._policy
        if deadline is not None:
            policy = TransactionPolicy(
                deadline, policy.widen_after, policy.attempt_timeout, policy.connect_timeout, policy.backoff
            )
        canvass = Canvass(policy, time.monotonic(), len(self._servers), self._preferred, question.new)
        return Drive(question, canvass)


class Drive:
    """A course, and what is known so far."""

    def __init__(self, question: Question, canvass: Canvass) -> None:
        self.question = question
        self.canvass = canvass
        self._answer: Optional[TransactionOutcome] = None
        self._last = Problem("no answer in time")

    def heard(self, attempt: int, status: int, body: bytes) -> None:
        """An answer to a question."""
        now, said = time.monotonic(), read(self.question.id, status, body)
        if isinstance(said, TransactionOutcome):
            self._answer = said
            self.canvass.answered(attempt, now)
            return
        self._last = said
        if said.refused:
            self.canvass.refused(attempt, now)
        else:
            self.canvass.busy(attempt, now, said.perhaps_done, random.random())

    def lost(self, attempt: int, why: str, sent: bool) -> None:
        """A question without an answer."""
        self._last = Problem(why)
        self.canvass.lost(attempt, time.monotonic(), sent, random.random())

    def answer(self) -> TransactionOutcome:
        """The answer, when the course is over with one."""
        if self._answer is None:
            raise self.error(True)
        return self._answer

    def error(self, perhaps_done: bool) -> JetonError:
        """Why there is none."""
        return error_of(self.question.id, self._last, perhaps_done)
