"""The client for threads: calls block, and may come from any thread."""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, Type, TypeVar, Union

from . import _verbs as verbs
from ._course import Abandon, Answered, Backoff, Course, Failed, Policy, Send, Wait
from ._drive import Addresses, CannotConnect, Drive, Settings, Stuck, check_greeting
from ._errors import Failure, read_error, write_error
from ._mint import SystemMint
from ._resp import Parser, ProtocolError, Push
from ._verbs import Changes, Fate, Key, ManyOutcome, Nonsense, Outcome

T = TypeVar("T")

# Of a few sockets, for a moment: the selector that costs nothing to make, where there is one.
_Selector: Type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


class _Connection:
    """A connection that one call has at a time."""

    def __init__(self, settings: Settings, address: Tuple[str, int], patience: float) -> None:
        end = time.monotonic() + patience
        name = f"{address[0]}:{address[1]}"
        try:
            self.sock: socket.socket = socket.create_connection(address, timeout=patience)
        except OSError as error:
            raise CannotConnect(Failure(f"cannot connect to {name}: {error}")) from error
        self._parser = Parser()
        self._replies: List[Any] = []
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if settings.tls is not None:
                self.sock = settings.tls.wrap_socket(self.sock, server_hostname=address[0])
            self.sock.sendall(settings.greeting())
            reply: Any = None
            while True:
                found, reply = self.take()
                if found:
                    break
                self.sock.settimeout(max(end - time.monotonic(), 0.001))
                self.receive()
            check_greeting(reply)
        except (OSError, ProtocolError) as error:
            self.close()
            raise CannotConnect(Failure(f"cannot connect to {name}: {error}")) from error
        except CannotConnect:
            self.close()
            raise

    def receive(self) -> None:
        """Reads what is there."""
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
        """Whether nothing has come that nobody asked for, such as the end."""
        if self._replies:
            return False
        with _Selector() as selector:
            selector.register(self.sock, selectors.EVENT_READ)
            return not selector.select(0)

    def close(self) -> None:
        self.sock.close()


class _Pool:
    """Connections that nobody uses, and how many there may be."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: Dict[int, List[_Connection]] = {}
        self._room = [threading.Semaphore(self._settings.connections) for _ in self._settings.addresses]

    def take(self, address: int, patience: float) -> _Connection:
        if self._pid != os.getpid():
            # What a parent has opened is the parent's: two processes on one connection mix up their answers.
            self._renew()
        end = time.monotonic() + patience
        if not self._room[address].acquire(timeout=patience):
            raise CannotConnect(Failure("all connections are in use"))
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

    All times are in seconds. `deadline` is how long an operation is tried, `attempt_timeout` how long one attempt
    waits for its answer, `hedge_after` after which time it is sent a second time elsewhere. `connections` is how many
    may be open to each address, `window` how long the tables remember ids: nothing is tried for longer than half of
    it. `tagged_ids` is for tables that take ids of several formats.
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
        self._mint = SystemMint(tagged_ids)
        self._preferred = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that nobody uses."""
        self._pool.close()

    def mint(self) -> str:
        """A new id. To know the id of an operation before it is sent, make it here and give it to the operation."""
        return self._mint.next()

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

        With `min` or `max` it is refused if the counter would leave them.
        """
        id = self.mint() if id is None else id
        return self._write(verbs.add(key, delta, id, min, max), id, deadline, verbs.read_outcome)

    def add_many(
        self, changes: Changes, *, id: Optional[str] = None, deadline: Optional[float] = None
    ) -> ManyOutcome:
        """Adds to several counters of one partition, all or none."""
        id = self.mint() if id is None else id
        return self._write(verbs.add_many(changes, id), id, deadline, verbs.read_many)

    def set(
        self,
        key: Key,
        value: Union[int, str, bytes],
        *,
        id: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Outcome:
        """Sets a counter, or puts bytes."""
        id = self.mint() if id is None else id
        return self._write(verbs.set_(key, value, id), id, deadline, verbs.read_outcome)

    def reset(self, key: Key, *, id: Optional[str] = None, deadline: Optional[float] = None) -> Outcome:
        """Sets a counter to 0."""
        id = self.mint() if id is None else id
        return self._write(verbs.reset(key, id), id, deadline, verbs.read_outcome)

    def delete(self, key: Key, *, id: Optional[str] = None, deadline: Optional[float] = None) -> Outcome:
        """Deletes a counter, or bytes."""
        id = self.mint() if id is None else id
        return self._write(verbs.delete(key, id), id, deadline, verbs.read_outcome)

    def get(self, key: Key, *, deadline: Optional[float] = None) -> Union[int, bytes, None]:
        """What a key holds: a counter as `int`, bytes as `bytes`, or nothing."""
        return self._read(verbs.get(key), deadline, verbs.read_held)

    def operation(
        self, id: str, *, table: Optional[str] = None, deadline: Optional[float] = None
    ) -> Fate:
        """What became of an id, in the default table or another."""
        return self._read(verbs.operation(id, table), deadline, verbs.read_fate)

    def _send(self, command: bytes, id: str, deadline: float) -> ManyOutcome:
        """Sends a write that is written down already, with this id in it. For the outbox."""
        return self._write(command, id, deadline, verbs.read_any)

    def _write(
        self, command: bytes, id: str, deadline: Optional[float], read: Callable[[Any, str], T]
    ) -> T:
        try:
            return read(self._drive(command, deadline), id)
        except Stuck as stuck:
            raise write_error(id, stuck.failure, stuck.perhaps_done) from None
        except Nonsense as nonsense:
            raise write_error(id, Failure(f"an answer that makes no sense: {nonsense}"), True) from None

    def _read(self, command: bytes, deadline: Optional[float], read: Callable[[Any], T]) -> T:
        try:
            return read(self._drive(command, deadline))
        except Stuck as stuck:
            raise read_error(stuck.failure) from None
        except Nonsense as nonsense:
            raise read_error(Failure(f"an answer that makes no sense: {nonsense}")) from None

    def _drive(self, command: bytes, deadline: Optional[float]) -> Any:
        policy = self._settings.policy
        if deadline is not None:
            policy = Policy(deadline, policy.window, policy.attempt_timeout, policy.hedge_after, policy.backoff)
        course = Course(policy, time.monotonic(), len(self._settings.addresses), self._preferred)
        volley = _Volley(self._pool, Drive(course), command, policy.attempt_timeout)
        try:
            address = volley.run()
        finally:
            # Answers to what still flies would be taken for answers to the next.
            volley.close()
        self._preferred = address
        return volley.drive.answer


class _Volley:
    """The attempts of one operation, each on a connection of its own."""

    def __init__(self, pool: _Pool, drive: Drive, command: bytes, patience: float) -> None:
        self.drive = drive
        self._pool = pool
        self._command = command
        self._patience = patience
        self._flying: Dict[int, Tuple[int, _Connection]] = {}

    def run(self) -> int:
        """Until it is answered. The address that did."""
        course = self.drive.course
        while True:
            step = course.step(time.monotonic())
            if isinstance(step, Send):
                self._send(step)
            elif isinstance(step, Abandon):
                self._land(step.attempt, False)
                self.drive.lost(step.attempt, Failure("no answer in time"), True, time.monotonic())
            elif isinstance(step, Wait):
                self._wait(step.until)
            elif isinstance(step, Answered):
                return (course.first + step.attempt) % course.addresses
            elif isinstance(step, Failed):
                raise Stuck(step.perhaps_done, self.drive.failure)

    def close(self) -> None:
        for attempt in list(self._flying):
            self._land(attempt, False)

    def _send(self, step: Send) -> None:
        left = self.drive.course.end - time.monotonic()
        patience = max(min(self._patience, left), 0.001)
        try:
            connection = self._pool.take(step.address, patience)
        except CannotConnect as error:
            self.drive.lost(step.attempt, error.failure, False, time.monotonic())
            return
        self._flying[step.attempt] = (step.address, connection)
        try:
            connection.sock.settimeout(patience)
            connection.sock.sendall(self._command)
        except OSError as error:
            self._lose(step.attempt, error)

    def _wait(self, until: float) -> None:
        with _Selector() as selector:
            for number, (_, connection) in self._flying.items():
                selector.register(connection.sock, selectors.EVENT_READ, number)
            left = max(until - time.monotonic(), 0.0)
            if not self._flying:
                time.sleep(left)
                return
            ready = selector.select(left)
        for key, _ in ready:
            attempt: int = key.data
            connection = self._flying[attempt][1]
            try:
                connection.receive()
                found, reply = connection.take()
            except (OSError, ProtocolError) as error:
                self._lose(attempt, error)
                continue
            if found:
                self._land(attempt, connection.is_quiet())
                self.drive.reply(attempt, reply, time.monotonic())

    def _lose(self, attempt: int, error: Exception) -> None:
        self._land(attempt, False)
        self.drive.lost(attempt, Failure(f"the connection was lost: {error}"), True, time.monotonic())

    def _land(self, attempt: int, usable: bool) -> None:
        address, connection = self._flying.pop(attempt)
        self._pool.give(address, connection, usable)
