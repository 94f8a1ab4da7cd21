"""A session: numbered requests, so that servers can drop acknowledged outcomes."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from .._retry import Backoff
from .._errors import InvalidRequest, JetonError
from .._id_generator import SystemIdGenerator
from .retry import FanOutRetryState, TransactionPolicy
from .wire import AckWatermark, Problem, Request, Server, TransactionOutcome, check_token, error_of, read, servers_of

Urls = Union[str, Sequence[str]]


class RequestNumbers:
    """The acks of now, from any thread and in children of a fork too; under a new id from time to time.

    Servers refuse sessions that are older than their window.
    """

    def __init__(self, id_generator: SystemIdGenerator, renew_after: float) -> None:
        self._id_generator = id_generator
        self._renew_after = renew_after
        self._lock = threading.Lock()
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._id = self._id_generator.next()
        self._begun = time.monotonic()
        self._acks = AckWatermark()

    def next(self, procedure: str, parameters: Mapping[str, Any]) -> Tuple[Request, RequestNumber]:
        """The next request, and its number_in_session among the others."""
        if self._pid != os.getpid():
            # The parent continues under the same id: the child must start a new one.
            self._lock = threading.Lock()
            self._renew()
        with self._lock:
            if time.monotonic() - self._begun >= self._renew_after:
                self._renew()
            found = self._acks.next()
            while found is None:
                self._renew()
                found = self._acks.next()
            number, acknowledged = found
            request = Request.of(f"{self._id}:{number}", procedure, parameters, acknowledged, True)
            return request, RequestNumber(self._lock, self._acks, number)


class RequestNumber:
    """The number of a request in its session."""

    def __init__(self, lock: threading.Lock, acks: AckWatermark, number: int) -> None:
        self._lock, self._acks, self._number = lock, acks, number

    def settle(self, error: Optional[BaseException]) -> None:
        """Acknowledges the request, unless its outcome is unknown and it may be retried."""
        if error is None or (isinstance(error, JetonError) and error.certain):
            with self._lock:
                self._acks.answered(self._number)


class Base:
    """Shared by both transaction clients."""

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
                "deadline, attempt_timeout, connect_timeout and renew_after must not be zero"
            )
        if min(backoff.base, backoff.cap) <= 0:
            # Without a wait between retries, clients would keep an overloaded server overloaded.
            raise InvalidRequest("backoff must not be zero")
        self._token = token
        self._policy = TransactionPolicy(deadline, widen_after, attempt_timeout, connect_timeout, backoff)
        self._id_generator = SystemIdGenerator(False)
        self._renew_after = renew_after
        self._preferred = 0
        self._own = self._new_numbers()

    def _new_numbers(self) -> RequestNumbers:
        return RequestNumbers(self._id_generator, self._renew_after)

    def _execute_with_retries(self, request: Request, deadline: Optional[float]) -> Execution:
        policy = self._policy
        if deadline is not None:
            policy = TransactionPolicy(
                deadline, policy.widen_after, policy.attempt_timeout, policy.connect_timeout, policy.backoff
            )
        retry = FanOutRetryState(policy, time.monotonic(), len(self._servers), self._preferred, request.new)
        return Execution(request, retry)


class Execution:
    """A retry, and what is known so far."""

    def __init__(self, request: Request, retry: FanOutRetryState) -> None:
        self.request = request
        self.retry = retry
        self._answer: Optional[TransactionOutcome] = None
        self._last = Problem("no response in time")

    def response(self, attempt: int, status: int, body: bytes) -> None:
        """An answer to a request."""
        now, parsed = time.monotonic(), read(self.request.id, status, body)
        if isinstance(parsed, TransactionOutcome):
            self._answer = parsed
            self.retry.answered(attempt, now)
            return
        self._last = parsed
        if parsed.refused:
            self.retry.refused(attempt, now)
        else:
            self.retry.busy(attempt, now, parsed.may_have_applied, random.random())

    def lost(self, attempt: int, why: str, sent: bool) -> None:
        """Records that an attempt got no response."""
        self._last = Problem(why)
        self.retry.lost(attempt, time.monotonic(), sent, random.random())

    def answer(self) -> TransactionOutcome:
        """The answer, when the retry is over with one."""
        if self._answer is None:
            raise self.error(True)
        return self._answer

    def error(self, may_have_applied: bool) -> JetonError:
        """Why there is none."""
        return error_of(self.request.id, self._last, may_have_applied)
