"""The blocking client. Threads may share it."""

from __future__ import annotations

import math
import os
import selectors
import socket
import ssl
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from ._calls import BaseClient, Settings, check_handshake
from ._commands import ManyOutcome, OperationStatus, Outcome, parse_any, parse_response
from ._drivers import Selector, run
from ._execute import AttemptError, AttemptFailed, connection_lost, not_connected
from ._resp import Parser, ProtocolError, Push
from ._retry import Answered, Send


class _Connection:
    """A connection, used by one call at a time."""

    def __init__(self, settings: Settings, address: Tuple[str, int], timeout: float) -> None:
        end = time.monotonic() + timeout
        name = f"{address[0]}:{address[1]}"
        try:
            self.sock: socket.socket = socket.create_connection(address, timeout=timeout)
        except OSError as error:
            raise not_connected(name, error) from error
        self._parser = Parser()
        self.replies: List[Any] = []
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if settings.tls is not None:
                self.sock = settings.tls.wrap_socket(self.sock, server_hostname=address[0])
            self.sock.sendall(settings.handshake())
            while not self.replies:
                self.sock.settimeout(max(end - time.monotonic(), 0.001))
                self.receive()
            check_handshake(self.replies.pop(0))
        except (OSError, ProtocolError) as error:
            self.close()
            raise not_connected(name, error) from error
        except AttemptFailed:
            self.close()
            raise

    def receive(self) -> None:
        """Reads the available input."""
        data = self.sock.recv(65536)
        if not data:
            raise OSError("the server closed the connection")
        self._parser.feed(data)
        while isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            # Bytes that are decrypted already do not make a socket readable.
            self._parser.feed(self.sock.recv(self.sock.pending()))
        self.replies += [reply for reply in self._parser.replies() if not isinstance(reply, Push)]

    def is_quiet(self) -> bool:
        """Whether no unexpected input is there, such as the end of the connection."""
        if self.replies:
            return False
        with Selector() as selector:
            selector.register(self.sock, selectors.EVENT_READ)
            return not selector.select(0)

    def close(self) -> None:
        self.sock.close()


class _Pool:
    """Idle connections. Limits the number of all connections."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: Dict[int, List[_Connection]] = {}
        self._room = [threading.Semaphore(self._settings.connections) for _ in self._settings.addresses]

    def take(self, address: int, timeout: float) -> _Connection:
        if self._pid != os.getpid():
            # The connections belong to the parent: two processes on one connection would mix up replies.
            self._renew()
        end = time.monotonic() + timeout
        if not self._room[address].acquire(timeout=timeout):
            raise AttemptFailed(AttemptError("all connections are in use", may_have_applied=False))
        try:
            while True:
                with self._lock:
                    idle = self._idle.get(address)
                    connection = idle.pop() if idle else None
                if connection is None:
                    where = self._settings.addresses[address]
                    return _Connection(self._settings, where, max(end - time.monotonic(), 0.001))
                if connection.is_quiet():
                    return connection
                connection.close()
        except BaseException:
            self._room[address].release()
            raise

    def give(self, address: int, connection: _Connection, usable: bool) -> None:
        if usable:
            with self._lock:
                self._idle.setdefault(address, []).append(connection)
        else:
            connection.close()
        self._room[address].release()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()


class Client(BaseClient[Outcome, ManyOutcome, Union[int, bytes, None], OperationStatus]):
    """A client of one store, which may have several addresses. Threads may share it.

    All times are in seconds. `deadline` limits the retries of an operation, `attempt_timeout` one attempt. After
    `hedge_after` without a reply a second attempt is sent to the next address. `connections` limits the connections to
    each address (64). `window` is how long the tables keep dedup records; retries stop after half of it. `tagged_ids`
    is for tables that accept ids of several formats.
    """

    _CONNECTIONS = 64

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the idle connections."""
        self._pool.close()

    def _setup(self) -> None:
        self._pool = _Pool(self._settings)

    def _send(self, command: bytes, id: str, deadline: float) -> None:
        """Sends an encoded write with this id. For the outbox."""
        self._execute(command, id, lambda reply: parse_any(reply, id), deadline)

    def _execute(
        self, command: bytes, id: Optional[str], parse: Callable[[Any], Any], deadline: Optional[float]
    ) -> Any:
        execution = self._execution(id, deadline)

        def start(action: Send) -> _Attempt:
            left = execution.clock.left(execution.retry.end)
            timeout = max(min(self._settings.policy.attempt_timeout, left), 0.001)
            return _Attempt(self._pool, action.server, command, parse, timeout)

        outcome = run(execution, start)
        if isinstance(outcome, Answered):
            self._preferred = outcome.server
        return execution.response(outcome)


class _Attempt:
    """An attempt, on a connection of its own."""

    sent = True
    connect_by = math.inf

    def __init__(
        self, pool: _Pool, address: int, command: bytes, parse: Callable[[Any], Any], timeout: float
    ) -> None:
        self._pool, self._address, self._parse = pool, address, parse
        self._connection = pool.take(address, timeout)
        self._usable = False
        self.sock = self._connection.sock
        try:
            self.sock.settimeout(timeout)
            self.sock.sendall(command)
        except OSError as error:
            self.close()
            raise connection_lost(error) from error

    def events(self) -> int:
        return selectors.EVENT_READ

    def advance(self) -> List[Any]:
        try:
            self._connection.receive()
        except (OSError, ProtocolError) as error:
            raise connection_lost(error) from error
        if not self._connection.replies:
            return []
        reply = self._connection.replies.pop(0)
        self._usable = self._connection.is_quiet()
        return [parse_response(reply, self._parse)]

    def close(self) -> None:
        # Late replies must not be taken for replies to the next command.
        self._pool.give(self._address, self._connection, self._usable)
