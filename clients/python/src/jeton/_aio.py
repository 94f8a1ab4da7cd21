"""The asyncio client. Many calls share few connections and pipeline their commands."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple, TypeVar, Union

from . import _commands as commands
from ._retry import Abandon, Answered, Backoff, RetryState, Failed, Policy, Send, Wait
from ._execute import Addresses, CannotConnect, Execution, Settings, RetriesExhausted, check_handshake
from ._errors import AttemptError, read_error, write_error
from ._id_generator import SystemIdGenerator
from ._resp import Parser, ProtocolError, Push
from ._commands import Changes, OperationStatus, Key, ManyOutcome, UnexpectedReply, Outcome

T = TypeVar("T")

# Most commands in flight on one connection.
_WAITING_MAX = 1024


class _Lost(Exception):
    """The connection ended before the reply arrived."""


class _Attempt:
    """An attempt: whether it may have been sent."""

    def __init__(self) -> None:
        self.sent = False
        self.when = 0.0


class _PipelinedConnection:
    """A connection, opened on demand. Replies are matched to commands in order."""

    def __init__(self, settings: Settings, address: Tuple[str, int]) -> None:
        self._settings = settings
        self._address = address
        self._opening = asyncio.Lock()
        self._room = asyncio.Semaphore(_WAITING_MAX)
        self._writer: Optional[asyncio.StreamWriter] = None
        self._reading: Optional[asyncio.Task[None]] = None
        self._waiting: Deque[asyncio.Future[Any]] = deque()
        self.last_read = 0.0

    async def ask(self, command: bytes, flight: _Attempt) -> Any:
        """Sends a command and waits for its reply."""
        async with self._room:
            async with self._opening:
                if self._writer is None:
                    await self._open()
                writer = self._writer
                assert writer is not None
                answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                # From here on it counts as sent, and keeps its number_in_session also when its caller is gone.
                flight.sent, flight.when = True, time.monotonic()
                self._waiting.append(answer)
                writer.write(command)
            # Waits while the server does not read; the reader notices a lost connection.
            try:
                await writer.drain()
            except (OSError, RuntimeError):
                pass
            return await answer

    async def _open(self) -> None:
        name = f"{self._address[0]}:{self._address[1]}"
        timeout = self._settings.policy.attempt_timeout
        parser = Parser()
        writer: Optional[asyncio.StreamWriter] = None
        try:
            host, port = self._address
            opening = asyncio.open_connection(host, port, ssl=self._settings.tls)
            reader, opened = await asyncio.wait_for(opening, timeout)
            writer = opened
            opened.write(self._settings.handshake())
            replies: List[Any] = []
            while not replies:
                replies = await asyncio.wait_for(_receive(reader, parser), timeout)
            check_handshake(replies[0])
        except (OSError, ProtocolError, asyncio.TimeoutError) as error:
            if writer is not None:
                writer.transport.abort()
            why = str(error) or "no response in time"
            raise CannotConnect(AttemptError(f"cannot connect to {name}: {why}")) from error
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
                        raise ProtocolError("the server sent a reply without a request")
                    answer = waiting.popleft()
                    if not answer.done():
                        answer.set_result(reply)
                self.last_read = time.monotonic()
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

    def close_if_silent(self, since: float) -> None:
        """Closes the connection if it received nothing since then."""
        if self.last_read < since and self._reading is not None:
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
    """Like `Client`, for asyncio. One event loop at a time may use it.

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
        self._lines: Optional[List[List[_PipelinedConnection]]] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._id_generator = SystemIdGenerator(tagged_ids)
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

    def new_id(self) -> str:
        """Generates an id. Use it to know the id of an operation before the operation is sent."""
        return self._id_generator.next()

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

        The server refuses it if the counter would leave the bounds `min` and `max`.
        """
        id = self.new_id() if id is None else id
        return await self._write(commands.add(key, delta, id, min, max), id, deadline, commands.parse_outcome)

    async def add_many(
        self, changes: Changes, *, id: Optional[str] = None, deadline: Optional[float] = None
    ) -> ManyOutcome:
        """Adds to several counters of one partition, all or none."""
        id = self.new_id() if id is None else id
        return await self._write(commands.add_many(changes, id), id, deadline, commands.parse_many)

    async def set(
        self,
        key: Key,
        value: Union[int, str, bytes],
        *,
        id: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Outcome:
        """Sets a counter, or stores bytes."""
        id = self.new_id() if id is None else id
        return await self._write(commands.set_(key, value, id), id, deadline, commands.parse_outcome)

    async def reset(self, key: Key, *, id: Optional[str] = None, deadline: Optional[float] = None) -> Outcome:
        """Sets a counter to 0."""
        id = self.new_id() if id is None else id
        return await self._write(commands.reset(key, id), id, deadline, commands.parse_outcome)

    async def delete(
        self, key: Key, *, id: Optional[str] = None, deadline: Optional[float] = None
    ) -> Outcome:
        """Deletes a counter, or bytes."""
        id = self.new_id() if id is None else id
        return await self._write(commands.delete(key, id), id, deadline, commands.parse_outcome)

    async def get(self, key: Key, *, deadline: Optional[float] = None) -> Union[int, bytes, None]:
        """Reads a key: a counter as `int`, bytes as `bytes`, or `None`."""
        return await self._read(commands.get(key), deadline, commands.parse_stored_value)

    async def operation(
        self, id: str, *, table: Optional[str] = None, deadline: Optional[float] = None
    ) -> OperationStatus:
        """Reads the status of an operation by its id, in the default table or another."""
        return await self._read(commands.operation(id, table), deadline, commands.parse_operation_status)

    async def _write(
        self, command: bytes, id: str, deadline: Optional[float], read: Callable[[Any, str], T]
    ) -> T:
        try:
            return read(await self._execute_with_retries(command, deadline), id)
        except RetriesExhausted as exhausted:
            raise write_error(id, exhausted.error, exhausted.may_have_applied) from None
        except UnexpectedReply as unexpected:
            raise write_error(id, AttemptError(f"unexpected reply: {unexpected}"), True) from None

    async def _read(self, command: bytes, deadline: Optional[float], read: Callable[[Any], T]) -> T:
        try:
            return read(await self._execute_with_retries(command, deadline))
        except RetriesExhausted as exhausted:
            raise read_error(exhausted.error) from None
        except UnexpectedReply as unexpected:
            raise read_error(AttemptError(f"unexpected reply: {unexpected}")) from None

    def _line(self, address: int, turn: int) -> _PipelinedConnection:
        loop = asyncio.get_running_loop()
        if self._lines is None or self._loop is not loop:
            # Connections of another event loop ended with it.
            self._loop = loop
            several = range(self._settings.connections)
            self._lines = [[_PipelinedConnection(self._settings, at) for _ in several] for at in self._settings.addresses]
        lines = self._lines[address]
        return lines[turn % len(lines)]

    async def _execute_with_retries(self, command: bytes, deadline: Optional[float]) -> Any:
        policy = self._settings.policy
        if deadline is not None:
            policy = Policy(deadline, policy.window, policy.attempt_timeout, policy.hedge_after, policy.backoff)
        retry = RetryState(policy, time.monotonic(), len(self._settings.addresses), self._preferred)
        execution = Execution(retry)
        self._turn += 1
        turn = self._turn
        in_flight: Dict[asyncio.Task[Any], Tuple[int, _Attempt, _PipelinedConnection]] = {}
        try:
            while True:
                step = retry.step(time.monotonic())
                if isinstance(step, Send):
                    # A second attempt at the same address uses another connection, if there is one.
                    flight, line = _Attempt(), self._line(step.address, turn + step.attempt)
                    in_flight[asyncio.create_task(line.ask(command, flight))] = (step.attempt, flight, line)
                elif isinstance(step, Abandon):
                    for task, (attempt, flight, line) in list(in_flight.items()):
                        if attempt == step.attempt:
                            del in_flight[task]
                            task.cancel()
                            if flight.sent:
                                line.close_if_silent(flight.when)
                            execution.lost(attempt, AttemptError("no response in time"), flight.sent, time.monotonic())
                elif isinstance(step, Wait):
                    left = max(step.until - time.monotonic(), 0.0)
                    if not in_flight:
                        await asyncio.sleep(left)
                        continue
                    done, _ = await asyncio.wait(in_flight, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        attempt, flight, _line = in_flight.pop(task)
                        _report(execution, attempt, flight, task)
                elif isinstance(step, Answered):
                    self._preferred = (retry.first + step.attempt) % retry.addresses
                    return execution.answer
                elif isinstance(step, Failed):
                    raise RetriesExhausted(step.may_have_applied, execution.error)
        finally:
            for task in in_flight:
                task.cancel()


def _report(execution: Execution, attempt: int, flight: _Attempt, task: asyncio.Task[Any]) -> None:
    now = time.monotonic()
    if task.cancelled():
        execution.lost(attempt, AttemptError("the client is closed"), flight.sent, now)
        return
    error = task.exception()
    if error is None:
        execution.reply(attempt, task.result(), now)
    elif isinstance(error, CannotConnect):
        execution.lost(attempt, error.error, False, now)
    elif isinstance(error, (OSError, _Lost)):
        execution.lost(attempt, AttemptError(str(error)), flight.sent, now)
    else:
        raise error
