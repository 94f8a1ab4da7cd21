"""Blocking transactions: one socket for each request, in the thread of the caller."""

from __future__ import annotations

import errno
import http.client
import selectors
import socket
import time
from typing import Any, Dict, Mapping, Optional

from .._retry import Abandon, Failed
from .retry import AnsweredBy, SendTo, WaitUntil
from .session import Base, RequestNumbers, Execution, RequestNumber
from .wire import RESPONSE_BYTES_MAX, Request, Server, TransactionOutcome, parse, whole


class Session:
    """Numbers its requests under one id, so that servers can drop acknowledged outcomes.

    Requests may be in flight together. The session continues under a new id from time to time.
    """

    def __init__(self, transactions: Transactions, numbers_of_session: RequestNumbers) -> None:
        self._transactions, self._numbers_of_session = transactions, numbers_of_session

    def execute(
        self, procedure: str, parameters: Mapping[str, Any], *, deadline: Optional[float] = None
    ) -> TransactionOutcome:
        """Executes a procedure, and retries until there is an outcome or the deadline passes."""
        request, number_in_session = self._numbers_of_session.next(procedure, parameters)
        return self._transactions._execute(request, number_in_session, deadline)

    issue = execute  # Deprecated alias.


class Transactions(Base):
    """A client of transactions, to servers such as `["http://10.0.0.1:6381", "http://10.0.0.2:6381"]`.

    Plain HTTP only. One server receives a request first, all of them if it does not respond. Retries end at the
    `deadline`; without one, never.
    """

    def __enter__(self) -> Transactions:
        return self

    def __exit__(self, *exception: object) -> None:
        """No connection is kept open."""

    def session(self) -> Session:
        """Creates a session, dated now."""
        return Session(self, self._new_numbers())

    def execute(
        self,
        procedure: str,
        parameters: Mapping[str, Any],
        *,
        id: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> TransactionOutcome:
        """Executes a procedure: under this id, or in the client's own session.

        The id is a UUID of version 7, optionally with a colon and a number.
        """
        if id is not None:
            return self._execute(Request.of(id, procedure, parameters, None, False), None, deadline)
        request, number_in_session = self._own.next(procedure, parameters)
        return self._execute(request, number_in_session, deadline)

    issue = execute  # Deprecated alias.

    def _execute(
        self, request: Request, number_in_session: Optional[RequestNumber], deadline: Optional[float]
    ) -> TransactionOutcome:
        attempts = _Attempts(self._execute_with_retries(request, deadline), self._servers, self._token)
        error: Optional[BaseException] = None
        try:
            self._preferred = attempts.run()
            return attempts.execution.answer()
        except BaseException as raised:
            error = raised
            raise
        finally:
            attempts.close()
            if number_in_session is not None:
                number_in_session.settle(error)


class _Attempt:
    """A request on its way."""

    def __init__(self, server: Server, words: bytes, timeout: float) -> None:
        family, kind, protocol, _, address = socket.getaddrinfo(
            server.host, server.port, type=socket.SOCK_STREAM
        )[0]
        self.connect_by = time.monotonic() + timeout
        self.connected = False
        self._words = words
        self._answer = b""
        self.sock = socket.socket(family, kind, protocol)
        try:
            self.sock.setblocking(False)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = self.sock.connect_ex(address)
            if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                raise OSError(code, "cannot connect")
        except OSError:
            self.sock.close()
            raise

    def events(self) -> int:
        """The awaited socket events."""
        return selectors.EVENT_WRITE if self._words else selectors.EVENT_READ

    def advance(self) -> Optional[bytes]:
        """Continues without blocking. Returns the whole response once it is there."""
        if not self.connected:
            code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, "cannot connect")
            self.connected = True
        if self._words:
            self._words = self._words[self.sock.send(self._words) :]
            return None
        data = self.sock.recv(65536)
        self._answer += data
        if len(self._answer) > RESPONSE_BYTES_MAX:
            raise OSError("the response is too long")
        return self._answer if not data or whole(self._answer) else None


class _Attempts:
    """The attempts of one transaction."""

    def __init__(self, execution: Execution, servers: list[Server], token: Optional[str]) -> None:
        self.execution = execution
        self._servers = servers
        self._token = token
        self._in_flight: Dict[int, _Attempt] = {}

    def run(self) -> int:
        """Runs until there is an outcome. Returns the index of the server."""
        retry = self.execution.retry
        while True:
            step = retry.step(time.monotonic())
            if isinstance(step, SendTo):
                self._send(step)
            elif isinstance(step, Abandon):
                self._lose(step.attempt, "no response in time", True)
            elif isinstance(step, WaitUntil):
                self._wait(step.until)
            elif isinstance(step, AnsweredBy):
                return step.server
            elif isinstance(step, Failed):
                raise self.execution.error(step.may_have_applied)

    def close(self) -> None:
        for flight in self._in_flight.values():
            flight.sock.close()
        self._in_flight.clear()

    def _send(self, step: SendTo) -> None:
        server = self._servers[step.server]
        words = self.execution.request.bytes_for(server, self._token, step.first_time)
        try:
            flight = _Attempt(server, words, self.execution.retry.policy.connect_timeout)
        except OSError as error:
            self._lose(step.attempt, f"cannot connect to {server.authority}: {error}", False)
            return
        self._in_flight[step.attempt] = flight

    def _wait(self, until: float) -> None:
        for flight in self._in_flight.values():
            if not flight.connected:
                until = min(until, flight.connect_by)
        with selectors.DefaultSelector() as selector:
            for attempt, flight in self._in_flight.items():
                selector.register(flight.sock, flight.events(), attempt)
            left = max(until - time.monotonic(), 0.0)
            if not self._in_flight:
                time.sleep(left)
                return
            # Not all systems take very long times.
            ready = {key.data for key, _ in selector.select(min(left, 3600.0))}
        for attempt, flight in list(self._in_flight.items()):
            if attempt in ready:
                self._advance(attempt, flight)
            elif not flight.connected and time.monotonic() >= flight.connect_by:
                self._lose(attempt, "no connection in time", False)

    def _advance(self, attempt: int, flight: _Attempt) -> None:
        try:
            answer = flight.advance()
            if answer is None:
                return
            status, body = parse(answer)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, http.client.HTTPException) as error:
            self._lose(attempt, f"the connection was lost: {error}", flight.connected)
            return
        del self._in_flight[attempt]
        flight.sock.close()
        self.execution.response(attempt, status, body)

    def _lose(self, attempt: int, why: str, sent: bool) -> None:
        flight = self._in_flight.pop(attempt, None)
        if flight is not None:
            flight.sock.close()
        self.execution.lost(attempt, why, sent)
