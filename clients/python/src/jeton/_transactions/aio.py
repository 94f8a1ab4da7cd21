"""Transactions for asyncio."""

from __future__ import annotations

import asyncio
import http.client
import time
from typing import Any, Dict, Mapping, Optional, Set, Tuple, Union

from .._course import Abandon, Failed
from .course import AnsweredBy, Ask, WaitFor
from .session import Base, Book, Drive, Place
from .words import ANSWER_BYTES_MAX, Question, Server, TransactionOutcome, parse, whole


class AsyncSession:
    """A session: its requests are numbered under one id, so that servers can forget what has been answered.

    Its requests may be under way at the same time, and it goes on for as long as one likes.
    """

    def __init__(self, transactions: AsyncTransactions, book: Book) -> None:
        self._transactions, self._book = transactions, book

    async def issue(
        self, procedure: str, parameters: Mapping[str, Any], *, deadline: Optional[float] = None
    ) -> TransactionOutcome:
        """Asks for a transaction, until there is an answer, the deadline has come, or it is cancelled."""
        question, place = self._book.next(procedure, parameters)
        return await self._transactions._issue(question, place, deadline)


class AsyncTransactions(Base):
    """As `Transactions`, for asyncio."""

    async def __aenter__(self) -> AsyncTransactions:
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Nothing is kept open."""

    def session(self) -> AsyncSession:
        """A session of its own, dated now."""
        return AsyncSession(self, self._book())

    async def issue(
        self,
        procedure: str,
        parameters: Mapping[str, Any],
        *,
        id: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> TransactionOutcome:
        """Asks for a transaction: under an id that comes from elsewhere, or else in a session of the client's own."""
        if id is not None:
            return await self._issue(Question.of(id, procedure, parameters, None, False), None, deadline)
        question, place = self._own.next(procedure, parameters)
        return await self._issue(question, place, deadline)

    async def _issue(
        self, question: Question, place: Optional[Place], deadline: Optional[float]
    ) -> TransactionOutcome:
        volley = _Volley(self._drive(question, deadline), self)
        error: Optional[BaseException] = None
        try:
            self._preferred = await volley.run()
            return volley.drive.answer()
        except BaseException as raised:
            error = raised
            raise
        finally:
            volley.close()
            if place is not None:
                place.settle(error)


#: An answer; or why there is none, and whether the question may have been sent.
_Heard = Union[Tuple[int, bytes], Tuple[str, bool]]


async def _ask(server: Server, words: bytes, patience: float) -> _Heard:
    try:
        opening = asyncio.open_connection(server.host, server.port)
        reader, writer = await asyncio.wait_for(opening, patience)
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
            if len(answer) > ANSWER_BYTES_MAX:
                return "an answer that is too long", True
    except (OSError, http.client.HTTPException) as error:
        return f"the connection was lost: {error}", True
    finally:
        writer.close()


class _Volley:
    """The questions about one transaction, each a task."""

    def __init__(self, drive: Drive, client: AsyncTransactions) -> None:
        self.drive = drive
        self._client = client
        self._flying: Dict[asyncio.Task[_Heard], int] = {}
        #: Those that were given up, until they are gone.
        self._ending: Set[asyncio.Task[_Heard]] = set()

    async def run(self) -> int:
        """Until it is answered. The server that did."""
        canvass = self.drive.canvass
        while True:
            step = canvass.step(time.monotonic())
            if isinstance(step, Ask):
                server = self._client._servers[step.server]
                words = self.drive.question.bytes_for(server, self._client._token, step.first_time)
                asking = _ask(server, words, canvass.policy.connect_timeout)
                self._flying[asyncio.ensure_future(asking)] = step.attempt
            elif isinstance(step, Abandon):
                for task, attempt in list(self._flying.items()):
                    if attempt == step.attempt:
                        self._abandon(task)
                self.drive.lost(step.attempt, "no answer in time", True)
            elif isinstance(step, WaitFor):
                await self._wait(step.until)
            elif isinstance(step, AnsweredBy):
                return step.server
            elif isinstance(step, Failed):
                raise self.drive.error(step.perhaps_done)

    def close(self) -> None:
        for task in list(self._flying):
            self._abandon(task)

    def _abandon(self, task: asyncio.Task[_Heard]) -> None:
        del self._flying[task]
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _wait(self, until: float) -> None:
        left = max(min(until - time.monotonic(), 3600.0), 0.0)
        if not self._flying:
            await asyncio.sleep(left)
            return
        done, _ = await asyncio.wait(self._flying, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            attempt, heard = self._flying.pop(task), task.result()
            if isinstance(heard[0], int):
                self.drive.heard(attempt, heard[0], heard[1])
            else:
                self.drive.lost(attempt, heard[0], bool(heard[1]))
