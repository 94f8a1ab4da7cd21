"""Blocking transactions: one socket for each request, in the thread of the caller."""

from __future__ import annotations

import errno
import http.client
import math
import selectors
import socket
import ssl
from typing import List, Optional, Union

from .._drivers import run
from .._execute import AttemptError, AttemptFailed, Clock, connection_lost, not_connected, not_trusted
from .._retry import Send
from .session import BaseSession, BaseTransactions, RequestNumber
from .wire import RESPONSE_BYTES_MAX, Request, Server, TransactionOutcome, is_complete, parse, parse_outcome


class Session(BaseSession[TransactionOutcome]):
    """A session of `Transactions`: servers can drop the outcomes that it acknowledges."""


class Transactions(BaseTransactions[TransactionOutcome]):
    """A client of transactions, for servers such as `["http://10.0.0.1:6381", "http://10.0.0.2:6381"]`.

    `https` URLs need a certificate that `tls` trusts; by default the operating system decides. One server receives a request first, all of them if it does not respond. Retries end at the
    `deadline`; without one, never.
    """

    def __enter__(self) -> Transactions:
        return self

    def __exit__(self, *exception: object) -> None:
        """No connection is kept open."""

    def session(self) -> Session:
        """Creates a session, dated now."""
        return Session(self, self._new_numbers())

    def _execute(
        self, request: Request, number: Optional[RequestNumber], deadline: Optional[float]
    ) -> TransactionOutcome:
        execution = self._execution(request, deadline)

        def start(action: Send) -> _Attempt:
            server = self._servers[action.server]
            message = request.encode(server, self._token, action.attempt == 0)
            tls, is_only = self._context(server), len(self._servers) == 1
            return _Attempt(request.id, server, message, self._connect_timeout, self._clock, tls, is_only)

        return self._finish(execution, number, run(execution, start))


class _Attempt:
    """An attempt on a socket of its own."""

    sent = False

    def __init__(
        self,
        id: str,
        server: Server,
        message: bytes,
        timeout: float,
        clock: Clock,
        tls: Optional[ssl.SSLContext],
        is_only_server: bool,
    ) -> None:
        self.connect_by = clock.now() + timeout
        self._id = id
        self._server = server
        self._output = message
        self._input = b""
        self._tls = tls
        self._is_only_server = is_only_server
        #: The event that the encryption waits for, if not the one of the request or response.
        self._wanted: Optional[int] = None
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                server.host, server.port, type=socket.SOCK_STREAM
            )[0]
            self.sock: socket.socket = socket.socket(family, kind, protocol)
        except OSError as error:
            raise not_connected(server.authority, error) from error
        try:
            self.sock.setblocking(False)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._check(self.sock.connect_ex(address))
        except (OSError, AttemptFailed):
            self.sock.close()
            raise

    def _check(self, code: int) -> None:
        if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            raise not_connected(self._server.authority, OSError(code, errno.errorcode.get(code, "error")))

    def events(self) -> int:
        if self._wanted is not None:
            return self._wanted
        return selectors.EVENT_WRITE if self._output else selectors.EVENT_READ

    def advance(self) -> List[Union[TransactionOutcome, AttemptError]]:
        self._wanted = None
        try:
            if not self.sent:
                self._connect()
                self.sent, self.connect_by = True, math.inf
            if self._output:
                self._output = self._output[self.sock.send(self._output) :]
                return []
            # To the end of the input: bytes that are decrypted already do not make a socket readable.
            while True:
                data = self.sock.recv(65536)
                self._input += data
                if len(self._input) > RESPONSE_BYTES_MAX:
                    raise connection_lost("the response is too long")
                if not data or is_complete(self._input):
                    return [parse_outcome(self._id, *parse(self._input))]
        except ssl.SSLWantReadError:
            self._wanted = selectors.EVENT_READ
            return []
        except ssl.SSLWantWriteError:
            self._wanted = selectors.EVENT_WRITE
            return []
        except (BlockingIOError, InterruptedError):
            return []
        except (OSError, http.client.HTTPException) as error:
            raise connection_lost(error) from error

    def _connect(self) -> None:
        """Completes the connection, and encrypts it."""
        self._check(self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        if self._tls is None:
            return
        try:
            if not isinstance(self.sock, ssl.SSLSocket):
                host = self._server.host
                self.sock = self._tls.wrap_socket(self.sock, server_hostname=host, do_handshake_on_connect=False)
            self.sock.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLCertVerificationError as error:
            raise not_trusted(self._server.authority, error, self._is_only_server) from error
        except OSError as error:
            raise not_connected(self._server.authority, error) from error

    def close(self) -> None:
        self.sock.close()
