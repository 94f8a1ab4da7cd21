"""Transactions for programs that wait: questions on sockets of their own, in the thread of the caller."""

from __future__ import annotations

import errno
import http.client
import selectors
import socket
import time
from typing import Any, Dict, Mapping, Optional

from .._course import Abandon, Failed
from .course import AnsweredBy, Ask, WaitFor
from .session import Base, Book, Drive, Place
from .words import ANSWER_BYTES_MAX, Question, Server, TransactionOutcome, parse, whole


class Session:
    """A session: its requests are numbered under one id, so that servers can forget what has been answered.

    It may be used from several threads, and goes on for as long as one likes.
    """

    def __init__(self, transactions: Transactions, book: Book) -> None:
        self._transactions, self._book = transactions, book

    def issue(
        self, procedure: str, parameters: Mapping[str, Any], *, deadline: Optional[float] = None
    ) -> TransactionOutcome:
        """Asks for a transaction, until there is an answer or the deadline has come."""
        question, place = self._book.next(procedure, parameters)
        return self._transactions._issue(question, place, deadline)


class Transactions(Base):
    """A client of transactions, to servers such as `["http://10.0.0.1:6381", "http://10.0.0.2:6381"]`.

    Plain HTTP only. It asks one server, and all of them if that is silent, for as long as the `deadline` says; without
    one, for ever.
    """

    def __enter__(self) -> Transactions:
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing is kept open."""

    def session(self) -> Session:
        """A session of its own, dated now."""
        return Session(self, self._book())

    def issue(
        self,
        procedure: str,
        parameters: Mapping[str, Any],
        *,
        id: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> TransactionOutcome:
        """Asks for a transaction: under an id that comes from elsewhere, or else in a session of the client's own.

        The id is a UUID of version 7, which may be followed by a colon and a number.
        """
        if id is not None:
            return self._issue(Question.of(id, procedure, parameters, None, False), None, deadline)
        question, place = self._own.next(procedure, parameters)
        return self._issue(question, place, deadline)

    def _issue(
        self, question: Question, place: Optional[Place], deadline: Optional[float]
    ) -> TransactionOutcome:
        volley = _Volley(self._drive(question, deadline), self._servers, self._token)
        error: Optional[BaseException] = None
        try:
            self._preferred = volley.run()
            return volley.drive.answer()
        except BaseException as raised:
            error = raised
            raise
        finally:
            volley.close()
            if place is not None:
                place.settle(error)


class _Flight:
    """A question on its way."""

    def __init__(self, server: Server, words: bytes, patience: float) -> None:
        family, kind, protocol, _, address = socket.getaddrinfo(
            server.host, server.port, type=socket.SOCK_STREAM
        )[0]
        self.connect_by = time.monotonic() + patience
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
        """What is waited for."""
        return selectors.EVENT_WRITE if self._words else selectors.EVENT_READ

    def go_on(self) -> Optional[bytes]:
        """Does what can be done. The whole answer, if it is there."""
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
        if len(self._answer) > ANSWER_BYTES_MAX:
            raise OSError("an answer that is too long")
        return self._answer if not data or whole(self._answer) else None


class _Volley:
    """The questions about one transaction."""

    def __init__(self, drive: Drive, servers: list[Server], token: Optional[str]) -> None:
        self.drive = drive
        self._servers = servers
        self._token = token
        self._flying: Dict[int, _Flight] = {}

    def run(self) -> int:
        """Until it is answered. The server that did."""
        canvass = self.drive.canvass
        while True:
            step = canvass.step(time.monotonic())
            if isinstance(step, Ask):
                self._ask(step)
            elif isinstance(step, Abandon):
                self._lose(step.attempt, "no answer in time", True)
            elif isinstance(step, WaitFor):
                self._wait(step.until)
            elif isinstance(step, AnsweredBy):
                return step.server
            elif isinstance(step, Failed):
                raise self.drive.error(step.perhaps_done)

    def close(self) -> None:
        for flight in self._flying.values():
            flight.sock.close()
        self._flying.clear()

    def _ask(self, step: Ask) -> None:
        server = self._servers[step.server]
        words = self.drive.question.bytes_for(server, self._token, step.first_time)
        try:
            flight = _Flight(server, words, self.drive.canvass.policy.connect_timeout)
        except OSError as error:
            self._lose(step.attempt, f"cannot connect to {server.authority}: {error}", False)
            return
        self._flying[step.attempt] = flight

    def _wait(self, until: float) -> None:
        for flight in self._flying.values():
            if not flight.connected:
                until = min(until, flight.connect_by)
        with selectors.DefaultSelector() as selector:
            for attempt, flight in self._flying.items():
                selector.register(flight.sock, flight.events(), attempt)
            left = max(until - time.monotonic(), 0.0)
            if not self._flying:
                time.sleep(left)
                return
            # Not all systems take very long times.
            ready = {key.data for key, _ in selector.select(min(left, 3600.0))}
        for attempt, flight in list(self._flying.items()):
            if attempt in ready:
                self._go_on(attempt, flight)
            elif not flight.connected and time.monotonic() >= flight.connect_by:
                self._lose(attempt, "no connection in time", False)

    def _go_on(self, attempt: int, flight: _Flight) -> None:
        try:
            answer = flight.go_on()
            if answer is None:
                return
            status, body = parse(answer)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, http.client.HTTPException) as error:
            self._lose(attempt, f"the connection was lost: {error}", flight.connected)
            return
        del self._flying[attempt]
        flight.sock.close()
        self.drive.heard(attempt, status, body)

    def _lose(self, attempt: int, why: str, sent: bool) -> None:
        flight = self._flying.pop(attempt, None)
        if flight is not None:
            flight.sock.close()
        self.drive.lost(attempt, why, sent)
