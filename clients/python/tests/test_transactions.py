"""Transactions, against scripted servers. `crates/cli/tests/transactions` runs them against real ones."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any, Dict, List, Optional, Tuple, Type

import pytest

from conftest import ManualClock, ThreadedServer, free_port
from jeton import (
    AsyncTransactions,
    Backoff,
    BadParameters,
    Busy,
    IdExpired,
    IdMismatch,
    InvalidRequest,
    JetonError,
    NoAuth,
    TransactionOutcome,
    Transactions,
    UnknownOutcome,
    UnknownProcedure,
    Unreachable,
)
from jeton._transactions.wire import is_complete

Response = Tuple[int, Dict[str, Any]]

DONE: Response = (200, {"id": "x", "outcome": "done", "result": {"left": 60}})
UNKNOWN: Response = (409, {"type": "/problems/outcome-unknown", "detail": "retry"})
BUSY: Response = (503, {"type": "/problems/busy", "detail": "too many"})
#: Reads the request, and does not respond.
SILENT: Response = (-1, {})
#: Reads the request, and closes the connection.
HANG_UP: Response = (0, {})


class ScriptedServer(ThreadedServer):
    """An HTTP server with these responses; the last one is repeated."""

    def __init__(self, clock: ManualClock, *responses: Response) -> None:
        self._clock = clock
        self._responses = responses
        self.requests: List[bytes] = []
        super().__init__()
        self.url = f"http://{self.address}"

    def serve(self, client: socket.socket, number: int) -> None:
        data = b""
        while not is_complete(data):
            more = client.recv(65536)
            if not more:
                return
            data += more
        with self.lock:
            self.requests.append(data)
            status, body = self._responses[min(len(self.requests), len(self._responses)) - 1]
        if (status, body) == SILENT:
            self._clock.skip()
            client.recv(1)  # Until the client closes it.
        elif (status, body) != HANG_UP:
            text = json.dumps(body).encode()
            client.sendall(f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)

    def header(self, name: str) -> List[Optional[str]]:
        """The value of a header in each request."""
        heads = [request.split(b"\r\n\r\n")[0].decode().split("\r\n")[1:] for request in self.requests]
        return [dict(line.split(": ", 1) for line in head).get(name) for head in heads]


def unused_url() -> str:
    return f"http://127.0.0.1:{free_port()}"


class Sync:
    """A blocking client with a session."""

    CLIENT: Any = Transactions

    def __init__(self, clock: ManualClock, *urls: str, **options: Any) -> None:
        self._client = self.CLIENT(list(urls), **{"backoff": Backoff(0.002, 0.02), **options})
        self._client._clock = clock
        self._session = self._client.session()

    def run(self, outcome: Any) -> TransactionOutcome:
        assert isinstance(outcome, TransactionOutcome)
        return outcome

    def execute(self, procedure: str, parameters: Dict[str, Any], **options: Any) -> TransactionOutcome:
        return self.run(self._session.execute(procedure, parameters, **options))

    def execute_with_id(self, id: str) -> TransactionOutcome:
        return self.run(self._client.execute("transfer", {}, id=id))


class Async(Sync):
    """An asyncio client with a session; its calls block."""

    CLIENT = AsyncTransactions

    def run(self, outcome: Any) -> TransactionOutcome:
        result: TransactionOutcome = asyncio.run(outcome)
        return result


@pytest.fixture(params=[Sync, Async])
def client(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_requests_of_a_session_are_numbered_and_acknowledged(client: Any, clock: ManualClock) -> None:
    scripted = ScriptedServer(clock, DONE, UNKNOWN, DONE)
    transactions = client(clock, scripted.url, token="jeton_x")
    first = transactions.execute("transfer", {"amount": 40})
    assert first.done and first.result == {"left": 60}
    second = transactions.execute("transfer", {})
    assert (first.id[-2:], second.id[-2:]) == (":0", ":1") and first.id[:-2] == second.id[:-2]
    assert scripted.requests[0].startswith(b"POST /v1/transactions/transfer HTTP/1.1\r\n")
    assert scripted.requests[0].endswith(b'\r\n\r\n{"amount": 40}')
    assert scripted.header("Authorization") == ["Bearer jeton_x"] * 3
    assert scripted.header("Idempotency-Key") == [f'"{first.id}"', f'"{second.id}"', f'"{second.id}"']
    assert scripted.header("Jeton-First-Time") == ["true", "true", None]
    assert scripted.header("Jeton-Acknowledged") == [None, "0", "0"]


def test_an_id_of_the_caller_is_never_called_new(client: Any, clock: ManualClock) -> None:
    scripted = ScriptedServer(clock, HANG_UP, (502, {}), DONE)
    id = "01890a5d-ac96-774b-bcce-b302099a8057"
    assert client(clock, scripted.url).execute_with_id(id).id == id
    assert scripted.header("Idempotency-Key") == [f'"{id}"'] * 3
    assert scripted.header("Jeton-First-Time") == [None] * 3


def test_a_silent_server_widens_the_request_to_all(client: Any, clock: ManualClock) -> None:
    silent, busy, quick = ScriptedServer(clock, SILENT), ScriptedServer(clock, BUSY), ScriptedServer(clock, DONE)
    transactions = client(clock, silent.url, busy.url, quick.url)
    assert transactions.execute("transfer", {}).done
    # The server that responded receives the next request.
    assert transactions.execute("transfer", {}).done
    assert (len(silent.requests), len(quick.requests)) == (1, 2)
    assert quick.header("Jeton-First-Time") == [None, "true"]


def test_an_unreachable_server_does_not_delay_the_others(client: Any, clock: ManualClock) -> None:
    quick = ScriptedServer(clock, DONE)
    assert client(clock, unused_url(), quick.url, widen_after=3600.0).execute("transfer", {}, deadline=30.0).done


def test_an_error_at_the_deadline_says_whether_it_may_take_effect(client: Any, clock: ManualClock) -> None:
    for response in (SILENT, UNKNOWN, HANG_UP):
        with pytest.raises(UnknownOutcome) as raised:
            client(clock, ScriptedServer(clock, response).url).execute("transfer", {}, deadline=0.1)
        assert raised.value.id.endswith(":0") and not raised.value.certain
    with pytest.raises(Busy):
        client(clock, ScriptedServer(clock, BUSY).url).execute("transfer", {}, deadline=0.1)
    with pytest.raises(Unreachable):
        client(clock, unused_url()).execute("transfer", {}, deadline=0.1)


def test_an_unknown_outcome_is_not_acknowledged(client: Any, clock: ManualClock) -> None:
    scripted = ScriptedServer(clock, SILENT, DONE)
    transactions = client(clock, scripted.url)
    with pytest.raises(UnknownOutcome):
        transactions.execute("transfer", {}, deadline=0.05)
    transactions.execute("transfer", {})
    transactions.execute("transfer", {})
    assert scripted.header("Jeton-Acknowledged") == [None] * 3


@pytest.mark.parametrize(
    "status, kind, error",
    [
        (400, "bad-parameters", BadParameters),
        (401, "unauthorized", NoAuth),
        (401, "token-invalid", NoAuth),
        (404, "unknown-procedure", UnknownProcedure),
        (410, "id-expired", IdExpired),
        (422, "id-mismatch", IdMismatch),
    ],
)
def test_refusals_are_not_retried(
    client: Any, clock: ManualClock, status: int, kind: str, error: Type[JetonError]
) -> None:
    refusal = (status, {"type": f"/problems/{kind}", "detail": "no"})
    with pytest.raises(error):
        client(clock, ScriptedServer(clock, refusal).url).execute("transfer", {})
    # The first attempt may still be executed, unless the id belongs to another transaction.
    with pytest.raises(error if error in (IdExpired, IdMismatch) else UnknownOutcome):
        client(clock, ScriptedServer(clock, HANG_UP, refusal).url).execute("transfer", {})


def test_invalid_requests_are_not_sent(clock: ManualClock) -> None:
    scripted = ScriptedServer(clock, DONE)
    client = Transactions(scripted.url)
    cases: List[Tuple[str, Dict[str, Any], Optional[str]]] = [
        ("a/b", {}, None),
        ("transfer", {"amount": float("nan")}, None),
        ("transfer", {"amount": object()}, None),
        ("transfer", {}, 'x"\r\ny: z'),
    ]
    for procedure, parameters, id in cases:
        with pytest.raises(InvalidRequest):
            client.execute(procedure, parameters, id=id)
    assert not scripted.requests
    for url in ("ftp://127.0.0.1", "127.0.0.1:6381", "http://a/b", "https://a/b", "http://a:b"):
        with pytest.raises(InvalidRequest):
            Transactions([url])


def test_concurrent_requests_have_their_own_numbers(clock: ManualClock) -> None:
    scripted = ScriptedServer(clock, DONE)

    async def run() -> List[TransactionOutcome]:
        session = AsyncTransactions(scripted.url).session()
        return list(await asyncio.gather(*(session.execute("transfer", {}) for _ in range(20))))

    assert len({outcome.id for outcome in asyncio.run(run())}) == 20


def test_an_old_session_continues_under_a_new_id(clock: ManualClock) -> None:
    session = Transactions(ScriptedServer(clock, DONE).url, renew_after=1e-9).session()
    one, other = session.execute("transfer", {}).id, session.execute("transfer", {}).id
    assert one.endswith(":0") and other.endswith(":0") and one != other
