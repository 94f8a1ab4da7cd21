"""The blocking client. Threads may share it."""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, Type, TypeVar, Union

from . import _commands as commands
from ._retry import Abandon, Answered, Backoff, RetryState, Failed, Policy, Send, Wait
from ._execute import Addresses, CannotConnect, Execution, Settings, RetriesExhausted, check_handshake
from ._errors import AttemptError, read_error, write_error
from ._id_generator import SystemIdGenerator
from ._resp import Parser, ProtocolError, Push
from ._commands import Changes, OperationStatus, Key, ManyOutcome, UnexpectedReply, Outcome

T = TypeVar("T")

# Of a few sockets, for a moment: the selector that costs nothing to make, where there is one.
_Selector: Type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


class _Connection:
    """A connection, used by one call at a time."""

    def __init__(self, settings: Settings, address: Tuple[str, int], timeout: float) -> None:
        end = time.monotonic() + timeout
        name = f"{address[0]}:{address[1]}"
        try:
            self.sock: socket.socket = socket.create_connection(address, timeout=timeout)
        except OSError as error:
            raise CannotConnect(AttemptError(f"cannot connect to {name}: {error}")) from error
        self._parser = Parser()
        self._replies: List[Any] = []
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if settings.tls is not None:
                self.sock = settings.tls.wrap_socket(self.sock, server_hostname=address[0])
            self.sock.sendall(settings.handshake())
            reply: Any = None
            while True:
                found, reply = self.take()
                if found:
                    break
                self.sock.settimeout(max(end - time.monotonic(), 0.001))
                self.receive()
            check_handshake(reply)
        except (OSError, ProtocolError) as error:
            self.close()
            raise CannotConnect(AttemptError(f"cannot connect to {name}: {error}")) from error
        except CannotConnect:
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
        self._replies += [reply for reply in self._parser.replies() if not isinstance(reply, Push)]

    def take(self) -> Tuple[bool, Any]:
        """A reply, if one is there."""
        return (True, self._replies.pop(0)) if self._replies else (False, None)

    def is_quiet(self) -> bool:
        """Whether no unexpected input is there, such as the end of the connection."""
        if self._replies:
            return False
        with _Selector() as selector:
            selector.register(self.sock, selectors.EVENT_READ)
            return not selector.select(0)

    def close(self) -> None:
        self.sock.close()


class _Pool:
    """Idle connections, and the limit on all of them."""

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
            raise CannotConnect(AttemptError("all connections are in use"))
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


class Client:
    """A client of one store, which may have several addresses. Threads may share it.

    All times are in seconds. `deadline` limits the retries of an operation, `attempt_timeout` one attempt. After
    `hedge_after` without a reply a second attempt is sent to the next address. `connections` limits the connections to
    each address. `window` is how long the tables keep dedup records; retries stop after half of it. `tagged_ids` is
    for tables that accept ids of several formats.
    """

    def __init__(
        self,
        addresses: Addresses,
        *,
        token: Optional[str] = None,
        deadline: float = 10.0,
        attempt_timeout: float = 2.0,
        hedge_after: Optional[float] = None,
        backoff: Optional[Backoff] = None,
        connections: int = 64,
        window: float = 24 * 3600.0,
        tagged_ids: bool = False,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._settings = Settings.of(
            addresses, token, deadline, attempt_timeout, hedge_after, backoff, connections, window, tls
        )
        self._pool = _Pool(self._settings)
        self._id_generator = SystemIdGenerator(tagged_ids)
        self._preferred = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the idle connections."""
        self._pool.close()

    def new_id(self) -> str:
        """Generates an id. Use it to know the id of an operation before the operation is sent."""
        return self._id_generator.next()

    def add(
        self,
        key: Key,
        delta: int = 1,
        *,
        id: Optional[str] = None,
        min: Optional[int] = None,
        max: Optional[int] = None,
        deadline: Optional[float] = None,
    ) -> Outcome:
        """Adds to a counter: `row` of the default table, or `table/row`.

        The server refuses it if the counter would leave the bounds `min` and `max`.
        """
        id = self.new_id() if id is None else id
        return self._write(commands.add(key, delta, id, min, max), id, deadline, commands.parse_outcome)

    def add_many(
        self, changes: Changes, *, id: Optional[str] = None, deadline: Optional[float] = None
    ) -> ManyOutcome:
        """Adds to several counters of one partition, all or none."""
        id = self.new_id() if id is None else id
        return self._write(commands.add_many(changes, id), id, deadline, commands.parse_many)

    def set(
        self,
        key: Key,
        value: Union[int, str, bytes],
        *,
        id: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Outcome:
        """Sets a counter, or stores bytes."""
        id = self.new_id() if id is None else id
        return self._write(commands.set_(key, value, id), id, deadline, commands.parse_outcome)

    def reset(self, key: Key, *, id: Optional[str] = None, deadline: Optional[float] = None) -> Outcome:
        """Sets a counter to 0."""
        id = self.new_id() if id is None else id
        return self._write(commands.reset(key, id), id, deadline, commands.parse_outcome)

    def delete(self, key: Key, *, id: Optional[str] = None, deadline: Optional[float] = None) -> Outcome:
        """Deletes a counter, or bytes."""
        id = self.new_id() if id is None else id
        return self._write(commands.delete(key, id), id, deadline, commands.parse_outcome)

    def get(self, key: Key, *, deadline: Optional[float] = None) -> Union[int, bytes, None]:
        """Reads a key: a counter as `int`, bytes as `bytes`, or `None`."""
        return self._read(commands.get(key), deadline, commands.parse_stored_value)

    def operation(
        self, id: str, *, table: Optional[str] = None, deadline: Optional[float] = None
    ) -> OperationStatus:
        """Reads the status of an operation by its id, in the default table or another."""
        return self._read(commands.operation(id, table), deadline, commands.parse_operation_status)

    def _send(self, command: bytes, id: str, deadline: float) -> ManyOutcome:
        """Sends an encoded write with this id. For the outbox."""
        return self._write(command, id, deadline, commands.parse_any)

    def _write(
        self, command: bytes, id: str, deadline: Optional[float], read: Callable[[Any, str], T]
    ) -> T:
        try:
            return read(self._execute_with_retries(command, deadline), id)
        except RetriesExhausted as exhausted:
            raise write_error(id, exhausted.error, exhausted.may_have_applied) from None
        except UnexpectedReply as unexpected:
            raise write_error(id, AttemptError(f"unexpected reply: {unexpected}"), True) from None

    def _read(self, command: bytes, deadline: Optional[float], read: Callable[[Any], T]) -> T:
        try:
            return read(self._execute_with_retries(command, deadline))
        except RetriesExhausted as exhausted:
            raise read_error(exhausted.error) from None
        except UnexpectedReply as unexpected:
            raise read_error(AttemptError(f"unexpected reply: {unexpected}")) from None

    def _execute_with_retries(self, command: bytes, deadline: Optional[float]) -> Any:
        policy = self._settings.policy
        if deadline is not None:
            policy = Policy(deadline, policy.window, policy.attempt_timeout, policy.hedge_after, policy.backoff)
        retry = RetryState(policy, time.monotonic(), len(self._settings.addresses), self._preferred)
        attempts = _Attempts(self._pool, Execution(retry), command, policy.attempt_timeout)
        try:
            address = attempts.run()
        finally:
            # Late replies must not be taken for replies to the next command.
            attempts.close()
        self._preferred = address
        return attempts.execution.answer


class _Attempts:
    """The attempts of one operation, each on a connection of its own."""

    def __init__(self, pool: _Pool, execution: Execution, command: bytes, timeout: float) -> None:
        self.execution = execution
        self._pool = pool
        self._command = command
        self._timeout = timeout
        self._in_flight: Dict[int, Tuple[int, _Connection]] = {}

    def run(self) -> int:
        """Runs until there is a reply. Returns the index of the address."""
        retry = self.execution.retry
        while True:
            step = retry.step(time.monotonic())
            if isinstance(step, Send):
                self._send(step)
            elif isinstance(step, Abandon):
                self._land(step.attempt, False)
                self.execution.lost(step.attempt, AttemptError("no response in time"), True, time.monotonic())
            elif isinstance(step, Wait):
                self._wait(step.until)
            elif isinstance(step, Answered):
                return (retry.first + step.attempt) % retry.addresses
            elif isinstance(step, Failed):
                raise RetriesExhausted(step.may_have_applied, self.execution.error)

    def close(self) -> None:
        for attempt in list(self._in_flight):
            self._land(attempt, False)

    def _send(self, step: Send) -> None:
        left = self.execution.retry.end - time.monotonic()
        timeout = max(min(self._timeout, left), 0.001)
        try:
            connection = self._pool.take(step.address, timeout)
        except CannotConnect as error:
            self.execution.lost(step.attempt, error.error, False, time.monotonic())
            return
        self._in_flight[step.attempt] = (step.address, connection)
        try:
            connection.sock.settimeout(timeout)
            connection.sock.sendall(self._command)
        except OSError as error:
            self._lose(step.attempt, error)

    def _wait(self, until: float) -> None:
        with _Selector() as selector:
            for number, (_, connection) in self._in_flight.items():
                selector.register(connection.sock, selectors.EVENT_READ, number)
            left = max(until - time.monotonic(), 0.0)
            if not self._in_flight:
                time.sleep(left)
                return
            ready = selector.select(left)
        for key, _ in ready:
            attempt: int = key.data
            connection = self._in_flight[attempt][1]
            try:
                connection.receive()
                found, reply = connection.take()
            except (OSError, ProtocolError) as error:
                self._lose(attempt, error)
                continue
            if found:
                self._land(attempt, connection.is_quiet())
                self.execution.reply(attempt, reply, time.monotonic())

    def _lose(self, attempt: int, error: Exception) -> None:
        self._land(attempt, False)
        self.execution.lost(attempt, AttemptError(f"the connection was lost: {error}"), True, time.monotonic())

    def _land(self, attempt: int, usable: bool) -> None:
        address, connection = self._in_flight.pop(attempt)
        self._pool.give(address, connection, usable)
