"""Transactions for asyncio."""

from __future__ import annotations

import asyncio
import http.client
import time
from typing import Any, Dict, Mapping, Optional, Set, Tuple, Union

from .._retry import Abandon, Failed
from .retry import AnsweredBy, SendTo, WaitUntil
from .session import Base, RequestNumbers, Execution, RequestNumber
from .wire import RESPONSE_BYTES_MAX, Request, Server, TransactionOutcome, parse, whole


class AsyncSession:
    """Numbers its requests under one id, so that servers can drop acknowledged outcomes.

    Requests may be in flight together. The session continues under a new id from time to time.
    """

    def __init__(self, transactions: AsyncTransactions, numbers_of_session: RequestNumbers) -> None:
        self._transactions, self._numbers_of_session = transactions, numbers_of_session

    async def execute(
        self, procedure: str, parameters: Mapping[str, Any], *, deadline: Optional[float] = None
    ) -> TransactionOutcome:
        """Executes a procedure, and retries until there is an outcome, the deadline passes, or it is cancelled."""
        request, number_in_session = self._numbers_of_session.next(procedure, parameters)
        return await self._transactions._execute(request, number_in_session, deadline)

    issue = execute  # Deprecated alias.


class AsyncTransactions(Base):
    """Like `Transactions`, for asyncio."""

    async def __aenter__(self) -> AsyncTransactions:
        return self

    async def __aexit__(self, *exception: object) -> None:
        """No connection is kept open."""

    def session(self) -> AsyncSession:
        """Creates a session, dated now."""
        return AsyncSession(self, self._new_numbers())

    async def execute(
        self,
        procedure: str,
        parameters: Mapping[str, Any],
        *,
        id: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> TransactionOutcome:
        """Executes a procedure: under this id, or in the client's own session."""
        if id is not None:
            return await self._execute(Request.of(id, procedure, parameters, None, False), None, deadline)
        request, number_in_session = self._own.next(procedure, parameters)
        return await self._execute(request, number_in_session, deadline)

    issue = execute  # Deprecated alias.

    async def _execute(
        self, request: Request, number_in_session: Optional[RequestNumber], deadline: Optional[float]
    ) -> TransactionOutcome:
        attempts = _Attempts(self._execute_with_retries(request, deadline), self)
        error: Optional[BaseException] = None
        try:
            self._preferred = await attempts.run()
            return attempts.execution.answer()
        except BaseException as raised:
            error = raised
            raise
        finally:
            attempts.close()
            if number_in_session is not None:
                number_in_session.settle(error)


#: Status and body; or an error, and whether the request may have been sent.
_Result = Union[Tuple[int, bytes], Tuple[str, bool]]


async def _send(server: Server, words: bytes, timeout: float) -> _Result:
    try:
        opening = asyncio.open_connection(server.host, server.port)
        reader, writer = await asyncio.wait_for(opening, timeout)
    except asyncio.TimeoutError:
        return "no connection in time", False
    except OSError as error:
        return f"cannot connect to {server.authority}: {error}", False
    try:
        writer.write(words)
        await writer.drain()
        answer = b""
        while True:
            data = await reader.read(65536)
            answer += data
            if not data or whole(answer):
                return parse(answer)
            if len(answer) > RESPONSE_BYTES_MAX:
                return "the response is too long", True
    except (OSError, http.client.HTTPException) as error:
        return f"the connection was lost: {error}", True
    finally:
        writer.close()


class _Attempts:
    """The attempts of one transaction, each a task."""

    def __init__(self, execution: Execution, client: AsyncTransactions) -> None:
        self.execution = execution
        self._client = client
        self._in_flight: Dict[asyncio.Task[_Result], int] = {}
        #: Abandoned tasks, until they end.
        self._ending: Set[asyncio.Task[_Result]] = set()

    async def run(self) -> int:
        """Runs until there is an outcome. Returns the index of the server."""
        retry = self.execution.retry
        while True:
            step = retry.step(time.monotonic())
            if isinstance(step, SendTo):
                server = self._client._servers[step.server]
                words = self.execution.request.bytes_for(server, self._client._token, step.first_time)
                asking = _send(server, words, retry.policy.connect_timeout)
                self._in_flight[asyncio.ensure_future(asking)] = step.attempt
            elif isinstance(step, Abandon):
                for task, attempt in list(self._in_flight.items()):
                    if attempt == step.attempt:
                        self._abandon(task)
                self.execution.lost(step.attempt, "no response in time", True)
            elif isinstance(step, WaitUntil):
                await self._wait(step.until)
            elif isinstance(step, AnsweredBy):
                return step.server
            elif isinstance(step, Failed):
                raise self.execution.error(step.may_have_applied)

    def close(self) -> None:
        for task in list(self._in_flight):
            self._abandon(task)

    def _abandon(self, task: asyncio.Task[_Result]) -> None:
        del self._in_flight[task]
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _wait(self, until: float) -> None:
        left = max(min(until - time.monotonic(), 3600.0), 0.0)
        if not self._in_flight:
            await asyncio.sleep(left)
            return
        done, _ = await asyncio.wait(self._in_flight, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            attempt, result = self._in_flight.pop(task), task.result()
            if isinstance(result[0], int):
                self.execution.response(attempt, result[0], result[1])
            else:
                self.execution.lost(attempt, result[0], bool(result[1]))
