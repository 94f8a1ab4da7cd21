"""The client for asyncio: many calls share few connections, and their commands go out together."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple, TypeVar, Union

from . import _verbs as verbs
from ._course import Abandon, Answered, Backoff, Course, Failed, Policy, Send, Wait
from ._drive import Addresses, CannotConnect, Drive, Settings, Stuck, check_greeting
from ._errors import Failure, read_error, write_error
from ._mint import SystemMint
from ._resp import Parser, ProtocolError, Push
from ._verbs import Changes, Fate, Key, ManyOutcome, Nonsense, Outcome

T = TypeVar("T")

# Commands that may wait for their answers on one connection.
_WAITING_MAX = 1024


class _Lost(Exception):
    """A connection that ended before the answer came."""


class _Flight:
    """An attempt: whether it may have been sent."""

    def __init__(self) -> None:
        self.sent = False
        self.when = 0.0


class _Line:
    """A connection that is opened when it is needed. Answers are matched with commands in order."""

    def __init__(self, settings: Settings, address: Tuple[str, int]) -> None:
        self._settings = settings
        self._address = address
        self._opening = asyncio.Lock()
        self._room = asyncio.Semaphore(_WAITING_MAX)
        self._writer: Optional[asyncio.StreamWriter] = None
        self._reading: Optional[asyncio.Task[None]] = None
        self._waiting: Deque[asyncio.Future[Any]] = deque()
        self.heard = 0.0

    async def ask(self, command: bytes, flight: _Flight) -> Any:
        """Sends a command and waits for its answer."""
        async with self._room:
            async with self._opening:
                if self._writer is None:
                    await self._open()
                writer = self._writer
                assert writer is not None
                answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                # From here on it counts as sent, and keeps its place also when its caller is gone.
                flight.sent, flight.when = True, time.monotonic()
                self._waiting.append(answer)
                writer.write(command)
            # Whoever does not take what is sent, is waited for; and who is lost, is noticed by the reader.
            try:
                await writer.drain()
            except (OSError, RuntimeError):
                pass
            return await answer

    async def _open(self) -> None:
        name = f"{self._address[0]}:{self._address[1]}"
        patience = self._settings.policy.attempt_timeout
        parser = Parser()
        writer: Optional[asyncio.StreamWriter] = None
        try:
            host, port = self._address
            opening = asyncio.open_connection(host, port, ssl=self._settings.tls)
            reader, opened = await asyncio.wait_for(opening, patience)
            writer = opened
            opened.write(self._settings.greeting())
            replies: List[Any] = []
            while not replies:
                replies = await asyncio.wait_for(_receive(reader, parser), patience)
            check_greeting(replies[0])
        except (OSError, ProtocolError, asyncio.TimeoutError) as error:
            if writer is not None:
                writer.transport.abort()
            why = str(error) or "no answer in time"
            raise CannotConnect(Failure(f"cannot connect to {name}: {why}")) from error
        except BaseException:
            if writer is not None:
                writer.transport.abort()
            raise
        self._writer, self._waiting = opened, deque()
        self._reading = asyncio.create_task(self._read(reader, parser, opened, self._waiting))

    async def _read(
        self,
        reader: asyncio.StreamReader,
        parser: Parser,
        writer: asyncio.StreamWriter,
        waiting: Deque[asyncio.Future[Any]],
    ) -> None:
        why = "it was closed"
        try:
            while True:
                for reply in await _receive(reader, parser):
                    if not waiting:
                        raise ProtocolError("the server answered what nobody asked")
                    answer = waiting.popleft()
                    if not answer.done():
                        answer.set_result(reply)
                self.heard = time.monotonic()
        except (OSError, ProtocolError) as error:
            why = str(error)
        finally:
            if self._writer is writer:
                self._writer = None
            writer.transport.abort()
            for answer in waiting:
                if not answer.done():
                    answer.set_exception(_Lost(f"the connection was lost: {why}"))
            waiting.clear()

    def doubt(self, since: float) -> None:
        """Somebody waited in vain since then. If nobody was answered, the line is dead, and closed."""
        if self.heard < since and self._reading is not None:
            self._reading.cancel()
            self._writer = None

    async def close(self) -> None:
        reading, self._reading, self._writer = self._reading, None, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def _receive(reader: asyncio.StreamReader, parser: Parser) -> List[Any]:
    data = await reader.read(65536)
    if not data:
        raise OSError("the server closed it")
    parser.feed(data)
    return [reply for reply in parser.replies() if not isinstance(reply, Push)]


class AsyncClient:
    """As `Client`, for asyncio. One event loop at a time may use it.

    `connections` is how many are open to each address; all calls share them.
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
        connections: int = 2,
        window: float = 24 * 3600.0,
        tagged_ids: bool = False,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._settings = Settings.of(
            addresses, token, deadline, attempt_timeout, hedge_after, backoff, connections, window, tls
        )
        self._lines: Optional[List[List[_Line]]] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._mint = SystemMint(tagged_ids)
        self._preferred = 0
        self._turn = 0

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        lines, self._lines = self._lines, None
        for line in [line for several in lines or [] for line in several]:
            await line.close()

    def mint(self) -> str:
        """A new id. To know the id of an operation before it is sent, make it here and give it to the operation."""
        return self._mint.next()

    async def add(
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
        return await self._write(verbs.add(key, delta, id, min, max), id, deadline, verbs.read_outcome)

    async def add_many(
        self, changes: Changes, *, id: Optional[str] = None, deadline: Optional[float] = None
    ) -> ManyOutcome:
        """Adds to several counters of one partition, all or none."""
        id = self.mint() if id is None else id
        return await self._write(verbs.add_many(changes, id), id, deadline, verbs.read_many)

    async def set(
        self,
        key: Key,
        value: Union[int, str, bytes],
        *,
        id: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Outcome:
        """Sets a counter, or puts bytes."""
        id = self.mint() if id is None else id
        return await self._write(verbs.set_(key, value, id), id, deadline, verbs.read_outcome)

    async def reset(self, key: Key, *, id: Optional[str] = None, deadline: Optional[float] = None) -> Outcome:
        """Sets a counter to 0."""
        id = self.mint() if id is None else id
        return await self._write(verbs.reset(key, id), id, deadline, verbs.read_outcome)

    async def delete(
        self, key: Key, *, id: Optional[str] = None, deadline: Optional[float] = None
    ) -> Outcome:
        """Deletes a counter, or bytes."""
        id = self.mint() if id is None else id
        return await self._write(verbs.delete(key, id), id, deadline, verbs.read_outcome)

    async def get(self, key: Key, *, deadline: Optional[float] = None) -> Union[int, bytes, None]:
        """What a key holds: a counter as `int`, bytes as `bytes`, or nothing."""
        return await self._read(verbs.get(key), deadline, verbs.read_held)

    async def operation(
        self, id: str, *, table: Optional[str] = None, deadline: Optional[float] = None
    ) -> Fate:
        """What became of an id, in the default table or another."""
        return await self._read(verbs.operation(id, table), deadline, verbs.read_fate)

    async def _write(
        self, command: bytes, id: str, deadline: Optional[float], read: Callable[[Any, str], T]
    ) -> T:
        try:
            return read(await self._drive(command, deadline), id)
        except Stuck as stuck:
            raise write_error(id, stuck.failure, stuck.perhaps_done) from None
        except Nonsense as nonsense:
            raise write_error(id, Failure(f"an answer that makes no sense: {nonsense}"), True) from None

    async def _read(self, command: bytes, deadline: Optional[float], read: Callable[[Any], T]) -> T:
        try:
            return read(await self._drive(command, deadline))
        except Stuck as stuck:
            raise read_error(stuck.failure) from None
        except Nonsense as nonsense:
            raise read_error(Failure(f"an answer that makes no sense: {nonsense}")) from None

    def _line(self, address: int, turn: int) -> _Line:
        loop = asyncio.get_running_loop()
        if self._lines is None or self._loop is not loop:
            # What was opened in another event loop ended with it.
            self._loop = loop
            several = range(self._settings.connections)
            self._lines = [[_Line(self._settings, at) for _ in several] for at in self._settings.addresses]
        lines = self._lines[address]
        return lines[turn % len(lines)]

    async def _drive(self, command: bytes, deadline: Optional[float]) -> Any:
        policy = self._settings.policy
        if deadline is not None:
            policy = Policy(deadline, policy.window, policy.attempt_timeout, policy.hedge_after, policy.backoff)
        course = Course(policy, time.monotonic(), len(self._settings.addresses), self._preferred)
        drive = Drive(course)
        self._turn += 1
        turn = self._turn
        flying: Dict[asyncio.Task[Any], Tuple[int, _Flight, _Line]] = {}
        try:
            while True:
                step = course.step(time.monotonic())
                if isinstance(step, Send):
                    # A second attempt at the same address goes over another connection, if there is one.
                    flight, line = _Flight(), self._line(step.address, turn + step.attempt)
                    flying[asyncio.create_task(line.ask(command, flight))] = (step.attempt, flight, line)
                elif isinstance(step, Abandon):
                    for task, (attempt, flight, line) in list(flying.items()):
                        if attempt == step.attempt:
                            del flying[task]
                            task.cancel()
                            if flight.sent:
                                line.doubt(flight.when)
                            drive.lost(attempt, Failure("no answer in time"), flight.sent, time.monotonic())
                elif isinstance(step, Wait):
                    left = max(step.until - time.monotonic(), 0.0)
                    if not flying:
                        await asyncio.sleep(left)
                        continue
                    done, _ = await asyncio.wait(flying, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        attempt, flight, _line = flying.pop(task)
                        _report(drive, attempt, flight, task)
                elif isinstance(step, Answered):
                    self._preferred = (course.first + step.attempt) % course.addresses
                    return drive.answer
                elif isinstance(step, Failed):
                    raise Stuck(step.perhaps_done, drive.failure)
        finally:
            for task in flying:
                task.cancel()


def _report(drive: Drive, attempt: int, flight: _Flight, task: asyncio.Task[Any]) -> None:
    now = time.monotonic()
    if task.cancelled():
        drive.lost(attempt, Failure("the client is closed"), flight.sent, now)
        return
    error = task.exception()
    if error is None:
        drive.reply(attempt, task.result(), now)
    elif isinstance(error, CannotConnect):
        drive.lost(attempt, error.failure, False, now)
    elif isinstance(error, (OSError, _Lost)):
        drive.lost(attempt, Failure(str(error)), flight.sent, now)
    else:
        raise error
