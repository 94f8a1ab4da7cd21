"""The asyncio client. Many calls share few connections and pipeline their commands."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Awaitable, Callable, Coroutine, Deque, List, Optional, Tuple, Union

from ._calls import BaseClient, Settings, check_handshake
from ._commands import ManyOutcome, OperationStatus, Outcome, parse_response
from ._drivers import TaskAttempt, run_async
from ._execute import NO_RESPONSE, connection_lost, not_connected
from ._resp import Parser, ProtocolError, Push
from ._retry import Answered, Send

# Most commands in flight on one connection.
_IN_FLIGHT_MAX = 1024


class _Attempt(TaskAttempt):
    """An attempt on a shared connection."""

    sent_at = 0.0

    def __init__(self, connection: _PipelinedConnection) -> None:
        self._connection = connection

    def timed_out(self) -> None:
        if self.sent:
            self._connection.close_if_silent(self.sent_at)


class _PipelinedConnection:
    """A connection, opened on demand. Replies are matched to commands in order."""

    def __init__(self, settings: Settings, address: Tuple[str, int]) -> None:
        self._settings = settings
        self._address = address
        self._opening = asyncio.Lock()
        self._room = asyncio.Semaphore(_IN_FLIGHT_MAX)
        self._writer: Optional[asyncio.StreamWriter] = None
        self._reader_task: Optional[asyncio.Task[None]] = None
        self._in_flight: Deque[asyncio.Future[Any]] = deque()
        self.last_read = 0.0

    async def request(self, command: bytes, attempt: _Attempt) -> Any:
        """Sends a command and waits for its reply."""
        async with self._room:
            async with self._opening:
                if self._writer is None:
                    await self._open()
                writer = self._writer
                assert writer is not None
                reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                # From here on it counts as sent, and keeps its place in the order also when its caller is gone.
                attempt.sent, attempt.sent_at = True, time.monotonic()
                self._in_flight.append(reply)
                writer.write(command)
            # Waits while the server does not read; the reader notices a lost connection.
            try:
                await writer.drain()
            except (OSError, RuntimeError):
                pass
            return await reply

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
            raise not_connected(name, str(error) or NO_RESPONSE.text) from error
        except BaseException:
            if writer is not None:
                writer.transport.abort()
            raise
        self._writer, self._in_flight = opened, deque()
        self._reader_task = asyncio.create_task(self._read(reader, parser, opened, self._in_flight))

    async def _read(
        self,
        reader: asyncio.StreamReader,
        parser: Parser,
        writer: asyncio.StreamWriter,
        in_flight: Deque[asyncio.Future[Any]],
    ) -> None:
        reason = "it was closed"
        try:
            while True:
                for reply in await _receive(reader, parser):
                    if not in_flight:
                        raise ProtocolError("the server sent a reply without a request")
                    future = in_flight.popleft()
                    if not future.done():
                        future.set_result(reply)
                self.last_read = time.monotonic()
        except (OSError, ProtocolError) as error:
            reason = str(error)
        finally:
            if self._writer is writer:
                self._writer = None
            writer.transport.abort()
            for future in in_flight:
                if not future.done():
                    future.set_exception(connection_lost(reason))
            in_flight.clear()

    def close_if_silent(self, since: float) -> None:
        """Closes the connection if it received nothing since then."""
        if self.last_read < since and self._reader_task is not None:
            self._reader_task.cancel()
            self._writer = None

    async def close(self) -> None:
        task, self._reader_task, self._writer = self._reader_task, None, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _receive(reader: asyncio.StreamReader, parser: Parser) -> List[Any]:
    data = await reader.read(65536)
    if not data:
        raise OSError("the server closed it")
    parser.feed(data)
    return [reply for reply in parser.replies() if not isinstance(reply, Push)]


class AsyncClient(
    BaseClient[
        Coroutine[Any, Any, Outcome],
        Coroutine[Any, Any, ManyOutcome],
        Coroutine[Any, Any, Union[int, bytes, None]],
        Coroutine[Any, Any, OperationStatus],
    ]
):
    """Like `Client`, for asyncio. One event loop at a time may use it.

    `connections` is how many are open to each address (2); all calls share them.
    """

    _CONNECTIONS = 2

    def _setup(self) -> None:
        self._connections: Optional[List[List[_PipelinedConnection]]] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        #: Counts operations, to spread them over the connections to an address.
        self._turn = 0

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        connections, self._connections = self._connections, None
        for connection in [connection for several in connections or [] for connection in several]:
            await connection.close()

    def _connection(self, address: int, turn: int) -> _PipelinedConnection:
        loop = asyncio.get_running_loop()
        if self._connections is None or self._loop is not loop:
            # Connections of another event loop ended with it.
            self._loop = loop
            self._connections = [
                [_PipelinedConnection(self._settings, address) for _ in range(self._settings.connections)]
                for address in self._settings.addresses
            ]
        connections = self._connections[address]
        return connections[turn % len(connections)]

    async def _execute(
        self, command: bytes, id: Optional[str], parse: Callable[[Any], Any], deadline: Optional[float]
    ) -> Any:
        execution = self._execution(id, deadline)
        self._turn += 1
        turn = self._turn

        def start(action: Send) -> Tuple[TaskAttempt, Awaitable[Any]]:
            # A second attempt at the same address uses another connection, if there is one.
            connection = self._connection(action.server, turn + action.attempt)
            attempt = _Attempt(connection)

            async def response() -> Any:
                return parse_response(await connection.request(command, attempt), parse)

            return attempt, response()

        outcome = await run_async(execution, start)
        if isinstance(outcome, Answered):
            self._preferred = outcome.server
        return execution.response(outcome)
