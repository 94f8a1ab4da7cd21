"""Options, sessions and calls of the blocking and of the asyncio client of transactions."""

# `_execute` returns what the type parameter of its subclass says.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

import os
import ssl
import threading
import time
from dataclasses import replace
from typing import Any, Generic, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from .._errors import InvalidRequest, JetonError
from .._execute import Clock, Execution
from .._id_generator import SystemIdGenerator
from .._retry import Backoff, Policy, RetryOutcome, RetryState, Failed
from .wire import AckWatermark, Request, Server, TransactionOutcome, check_token

Urls = Union[str, Sequence[str]]
T = TypeVar("T")


class RequestNumbers:
    """The request numbers of a session, for any thread and for children of a fork.

    A session continues under a new id from time to time, because servers reject sessions older than their window.
    """

    def __init__(self, id_generator: SystemIdGenerator, renew_after: float) -> None:
        self._id_generator = id_generator
        self._renew_after = renew_after
        self._lock = threading.Lock()
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._id = self._id_generator.next()
        self._started = time.monotonic()
        self._acks = AckWatermark()

    def next(self, procedure: str, parameters: Mapping[str, Any]) -> Tuple[Request, RequestNumber]:
        """The next request, and its number."""
        if self._pid != os.getpid():
            # The parent continues under the same id: the child must start a new one.
            self._lock = threading.Lock()
            self._renew()
        with self._lock:
            if time.monotonic() - self._started >= self._renew_after:
                self._renew()
            next = self._acks.next()
            while next is None:
                self._renew()
                next = self._acks.next()
            number, acknowledged = next
            request = Request.of(f"{self._id}:{number}", procedure, parameters, acknowledged, True)
            return request, RequestNumber(self._lock, self._acks, number)


class RequestNumber:
    """The number of a request in its session."""

    def __init__(self, lock: threading.Lock, acks: AckWatermark, number: int) -> None:
        self._lock, self._acks, self._number = lock, acks, number

    def finish(self, error: Optional[JetonError]) -> None:
        """Acknowledges the request, unless its outcome is unknown and it may be retried."""
        if error is None or error.certain:
            with self._lock:
                self._acks.answered(self._number)


class BaseSession(Generic[T]):
    """Numbers its requests under one id, so that servers can drop acknowledged outcomes.

    Requests may be in flight together. The session continues under a new id from time to time.
    """

    def __init__(self, transactions: BaseTransactions[T], numbers: RequestNumbers) -> None:
        self._transactions, self._numbers = transactions, numbers

    def execute(self, procedure: str, parameters: Mapping[str, Any], *, deadline: Optional[float] = None) -> T:
        """Executes a procedure, and retries until there is an outcome or the deadline passes."""
        return self._transactions._execute(*self._numbers.next(procedure, parameters), deadline)

    issue = execute  # Deprecated alias.


class BaseTransactions(Generic[T]):
    """The calls of a client of transactions. `T` is the result of a call."""

    def __init__(
        self,
        servers: Urls,
        *,
        token: Optional[str] = None,
        tls: Optional[ssl.SSLContext] = None,
        deadline: Optional[float] = None,
        widen_after: float = 0.5,
        # The server itself responds after 30 s by default if the outcome is still unknown.
        attempt_timeout: float = 40.0,
        connect_timeout: float = 2.0,
        backoff: Optional[Backoff] = None,
        renew_after: float = 3600.0,
    ) -> None:
        listed = [servers] if isinstance(servers, str) else list(servers)
        if not 1 <= len(listed) <= 64:
            raise InvalidRequest("there must be 1 to 64 servers")
        self._servers: List[Server] = [Server.of(url) for url in listed]
        check_token(token)
        if min(connect_timeout, renew_after) <= 0:
            raise InvalidRequest("connect_timeout and renew_after must not be zero")
        self._policy = Policy(deadline, None, attempt_timeout, None, widen_after, backoff or Backoff(0.05, 5.0))
        self._policy.check()
        self._token = token
        if tls is None and any(server.encrypted for server in self._servers):
            # The authorities of the operating system.
            tls = ssl.create_default_context()
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._id_generator = SystemIdGenerator(False)
        self._renew_after = renew_after
        #: Index of the server that responded last; the next transaction starts there.
        self._preferred = 0
        self._clock = Clock()
        self._own = self._new_numbers()

    def execute(
        self,
        procedure: str,
        parameters: Mapping[str, Any],
        *,
        id: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> T:
        """Executes a procedure: under this id, or in the client's own session.

        The id is a UUID of version 7, optionally with a colon and a number.
        """
        if id is not None:
            return self._execute(Request.of(id, procedure, parameters, None, False), None, deadline)
        return self._execute(*self._own.next(procedure, parameters), deadline)

    issue = execute  # Deprecated alias.

    def _execute(self, request: Request, number: Optional[RequestNumber], deadline: Optional[float]) -> Any:
        raise NotImplementedError

    def _context(self, server: Server) -> Optional[ssl.SSLContext]:
        """Encrypts the connections to a server."""
        return self._tls if server.encrypted else None

    def _new_numbers(self) -> RequestNumbers:
        return RequestNumbers(self._id_generator, self._renew_after)

    def _execution(self, request: Request, deadline: Optional[float]) -> Execution[TransactionOutcome]:
        policy = self._policy if deadline is None else replace(self._policy, deadline=deadline)
        # An earlier process may have sent a request that is not new.
        retry = RetryState(policy, self._clock.now(), len(self._servers), self._preferred, not request.is_new)
        return Execution(request.id, retry, self._clock)

    def _finish(
        self, execution: Execution[TransactionOutcome], number: Optional[RequestNumber], outcome: RetryOutcome
    ) -> TransactionOutcome:
        error: Optional[JetonError] = None
        if not isinstance(outcome, Failed):
            self._preferred = outcome.server
        try:
            return execution.response(outcome)
        except JetonError as raised:
            error = raised
            raise
        finally:
            if number is not None:
                number.finish(error)
