"""Transactions for asyncio."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from typing import Any, Awaitable, Coroutine, Optional, Tuple, Union

from .._drivers import TaskAttempt, run_async
from .._execute import AttemptError, connection_lost, not_connected, not_trusted
from .._retry import Send
from .session import BaseSession, BaseTransactions, RequestNumber
from .wire import RESPONSE_BYTES_MAX, Request, Server, TransactionOutcome, is_complete, parse, parse_outcome

_Response = Union[TransactionOutcome, AttemptError]


class AsyncSession(BaseSession[Coroutine[Any, Any, TransactionOutcome]]):
    """A session of `AsyncTransactions`: servers can drop the outcomes that it acknowledges."""


class AsyncTransactions(BaseTransactions[Coroutine[Any, Any, TransactionOutcome]]):
    """Like `Transactions`, for asyncio."""

    async def __aenter__(self) -> AsyncTransactions:
        return self

    async def __aexit__(self, *exception: object) -> None:
        """No connection is kept open."""

    def session(self) -> AsyncSession:
        """Creates a session, dated now."""
        return AsyncSession(self, self._new_numbers())

    async def _execute(
        self, request: Request, number: Optional[RequestNumber], deadline: Optional[float]
    ) -> TransactionOutcome:
        execution = self._execution(request, deadline)

        def start(action: Send) -> Tuple[TaskAttempt, Awaitable[_Response]]:
            server, attempt = self._servers[action.server], TaskAttempt()
            message = request.encode(server, self._token, action.attempt == 0)
            is_only = len(self._servers) == 1
            tls, timeout = self._context(server), self._connect_timeout
            return attempt, _send(attempt, request.id, server, message, timeout, tls, is_only)

        return self._finish(execution, number, await run_async(execution, start))


async def _send(
    attempt: TaskAttempt,
    id: str,
    server: Server,
    message: bytes,
    timeout: float,
    tls: Optional[ssl.SSLContext],
    is_only_server: bool,
) -> _Response:
    try:
        opening = asyncio.open_connection(server.host, server.port, ssl=tls)
        reader, writer = await asyncio.wait_for(opening, timeout)
    except asyncio.TimeoutError as error:
        raise not_connected(server.authority, "no connection in time") from error
    except ssl.SSLCertVerificationError as error:
        raise not_trusted(server.authority, error, is_only_server) from error
    except OSError as error:
        raise not_connected(server.authority, error) from error
    try:
        attempt.sent = True
        writer.write(message)
        await writer.drain()
        response = b""
        while True:
            data = await reader.read(65536)
            response += data
            if not data or is_complete(response):
                return parse_outcome(id, *parse(response))
            if len(response) > RESPONSE_BYTES_MAX:
                raise connection_lost("the response is too long")
    except (OSError, http.client.HTTPException) as error:
        raise connection_lost(error) from error
    finally:
        writer.close()
