"""Asking for transactions, against servers that say what the test wants.

Against real ones: `crates/cli/tests/transactions`.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest

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
from jeton._retry import Abandon, Failed
from jeton._transactions.retry import AnsweredBy, SendTo, FanOutRetryState, TransactionPolicy, WaitUntil
from jeton._transactions.wire import AckWatermark, Problem, parse, read, whole

DONE = (200, {"id": "x", "outcome": "done", "result": {"left": 60}})
NOT_YET = (409, {"type": "/problems/outcome-unknown", "detail": "ask again"})
BUSY = (503, {"type": "/problems/busy", "detail": "too much"})
#: Reads the request, and never says anything.
KEEP = None
#: Reads the request, and hangs up.
HANG_UP: Tuple[int, Dict[str, Any]] = (0, {})

Act = Optional[Tuple[int, Dict[str, Any]]]


class ScriptedServer:
    """A server that does as it is told, act after act; the last one again and again."""

    def __init__(self, *acts: Act) -> None:
        self._acts = acts
        self.asked: List[bytes] = []
        self._lock = threading.Lock()
        self._kept: List[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        data = b""
        while not whole(data):
            more = client.recv(65536)
            if not more:
                return
            data += more
        with self._lock:
            self.asked.append(data)
            act = self._acts[min(len(self.asked), len(self._acts)) - 1]
        if act is KEEP:
            self._kept.append(client)
            return
        with client:
            if act != HANG_UP:
                body = json.dumps(act[1]).encode()
                head = f"HTTP/1.1 {act[0]} X\r\nContent-Length: {len(body)}\r\n\r\n"
                client.sendall(head.encode() + body)

    def header(self, name: str) -> List[Optional[str]]:
        """What each request said in a header."""
        found: List[Optional[str]] = []
        for asked in self.asked:
            lines = asked.split(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
            found.append(dict(line.split(": ", 1) for line in lines).get(name))
        return found


def nowhere() -> str:
    """Nobody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


Issue = Callable[..., TransactionOutcome]

QUICK: Dict[str, Any] = {"widen_after": 0.03, "backoff": Backoff(0.002, 0.02)}


class Sync:
    """Both clients in the same words."""

    def __init__(self, *urls: str, **options: Any) -> None:
        self.client = Transactions(list(urls), **{**QUICK, **options})
        self.session = self.client.session()
        self.execute = self.session.execute
        self.execute_with_id = self.client.execute


class Async:
    def __init__(self, *urls: str, **options: Any) -> None:
        self.client = AsyncTransactions(list(urls), **{**QUICK, **options})
        self.session = self.client.session()

    def execute(self, *arguments: Any, **more: Any) -> TransactionOutcome:
        return asyncio.run(self.session.execute(*arguments, **more))

    def execute_with_id(self, *arguments: Any, **more: Any) -> TransactionOutcome:
        return asyncio.run(self.client.execute(*arguments, **more))


@pytest.fixture(params=[Sync, Async])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield request.param


def test_requests_of_a_session_are_numbered_and_acknowledged(client: Any) -> None:
    scripted = ScriptedServer(DONE, NOT_YET, DONE)
    told = client(scripted.url, token="jeton_x")
    first = told.execute("transfer", {"amount": 40})
    assert first.done and first.result == {"left": 60}
    second = told.execute("transfer", {})
    assert (first.id[-2:], second.id[-2:]) == (":0", ":1") and first.id[:-2] == second.id[:-2]
    assert scripted.asked[0].startswith(b"POST /v1/transactions/transfer HTTP/1.1\r\n")
    assert scripted.asked[0].endswith(b'\r\n\r\n{"amount": 40}')
    assert scripted.header("Authorization") == ["Bearer jeton_x"] * 3
    assert scripted.header("Idempotency-Key") == [f'"{first.id}"', f'"{second.id}"', f'"{second.id}"']
    assert scripted.header("Jeton-First-Time") == ["true", "true", None]
    assert scripted.header("Jeton-Acknowledged") == [None, "0", "0"]


def test_an_id_from_elsewhere_is_never_called_new(client: Any) -> None:
    scripted = ScriptedServer(HANG_UP, (502, {}), DONE)
    id = "01890a5d-ac96-774b-bcce-b302099a8057"
    assert client(scripted.url).execute_with_id("transfer", {}, id=id).id == id
    assert scripted.header("Idempotency-Key") == [f'"{id}"'] * 3
    assert scripted.header("Jeton-First-Time") == [None] * 3


def test_if_the_first_server_is_silent_all_are_asked(client: Any) -> None:
    silent, busy, quick = ScriptedServer(KEEP), ScriptedServer(BUSY), ScriptedServer(DONE)
    told = client(silent.url, busy.url, quick.url)
    assert told.execute("transfer", {}).done
    # Who answered is asked first from then on.
    assert told.execute("transfer", {}).done
    assert (len(silent.asked), len(quick.asked)) == (1, 2)
    assert quick.header("Jeton-First-Time") == [None, "true"]


def test_a_server_that_is_not_there_costs_no_patience(client: Any) -> None:
    quick = ScriptedServer(DONE)
    assert client(nowhere(), quick.url, widen_after=3600.0).execute("transfer", {}, deadline=30.0).done


def test_at_the_deadline_it_is_said_whether_it_may_take_effect(client: Any) -> None:
    for act in (KEEP, NOT_YET, HANG_UP):
        with pytest.raises(UnknownOutcome) as raised:
            client(ScriptedServer(act).url).execute("transfer", {}, deadline=0.1)
        assert raised.value.id.endswith(":0") and not raised.value.certain
    with pytest.raises(Busy):
        client(ScriptedServer(BUSY).url).execute("transfer", {}, deadline=0.1)
    with pytest.raises(Unreachable):
        client(nowhere()).execute("transfer", {}, deadline=0.1)


def test_what_may_have_been_done_is_not_acknowledged(client: Any) -> None:
    scripted = ScriptedServer(KEEP, DONE)
    told = client(scripted.url)
    with pytest.raises(UnknownOutcome):
        told.execute("transfer", {}, deadline=0.05)
    told.execute("transfer", {})
    told.execute("transfer", {})
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
def test_refusals_end_it(client: Any, status: int, kind: str, error: type[JetonError]) -> None:
    said = (status, {"type": f"/problems/{kind}", "detail": "no"})
    with pytest.raises(error):
        client(ScriptedServer(said).url).execute("transfer", {})
    # The one that hung up may be at work, unless the id stands for something else.
    with pytest.raises(error if error in (IdExpired, IdMismatch) else UnknownOutcome):
        client(ScriptedServer(HANG_UP, said).url).execute("transfer", {})


def test_what_cannot_be_sent_is_not() -> None:
    scripted = ScriptedServer(DONE)
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
    assert not scripted.asked
    for url in ("https://127.0.0.1", "127.0.0.1:6381", "http://a/b", "http://a:b"):
        with pytest.raises(InvalidRequest):
            Transactions([url])


def test_many_at_the_same_time() -> None:
    scripted = ScriptedServer(DONE)

    async def run() -> List[TransactionOutcome]:
        session = AsyncTransactions(scripted.url).session()
        return list(await asyncio.gather(*(session.execute("transfer", {}) for _ in range(20))))

    assert len({outcome.id for outcome in asyncio.run(run())}) == 20


def test_a_session_goes_on_under_a_new_id_when_it_is_old() -> None:
    session = Transactions(ScriptedServer(DONE).url, renew_after=1e-9).session()
    one, other = session.execute("transfer", {}).id, session.execute("transfer", {}).id
    assert one.endswith(":0") and other.endswith(":0") and one != other


def test_only_what_has_no_gap_below_it_is_acknowledged() -> None:
    acks = AckWatermark()
    assert [acks.next(), acks.next()] == [(0, None), (1, None)]
    acks.answered(1)
    assert acks.next() == (2, None)
    acks.answered(0)
    assert acks.next() == (3, 1)


def test_answers_are_read_whole() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert parse(chunked) == (200, b"{}") and not whole(chunked)
    for cut in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", b"SSH-2.0\r\n"):
        with pytest.raises(Exception):
            parse(cut)
    for nonsense in (b"", b"[]", b'{"outcome": "perhaps"}', b"<html>"):
        said = read("x", 200, nonsense)
        assert isinstance(said, Problem) and not said.refused and said.may_have_applied


def test_a_course_keeps_its_promises() -> None:
    rng = random.Random(7)
    for _ in range(2000):
        deadline = rng.choice([None, rng.random() * 5])
        policy = TransactionPolicy(deadline, 0.1, 1.0, 1.0, Backoff(0.01, 0.05))
        servers, first = rng.randrange(1, 6), rng.randrange(6)
        # What is not new may have been done long ago.
        new = rng.choice([True, False])
        now, asked, may_have_applied, refused = 7.0, 0, not new, False
        retry = FanOutRetryState(policy, now, servers, first, new)
        in_flight: List[Tuple[float, int, int, str]] = []
        for _ in range(300):
            step = retry.step(now)
            if isinstance(step, SendTo):
                assert step.attempt == asked and step.first_time == (new and asked == 0)
                assert asked or step.server == first % servers
                assert now < retry.end and all(step.server != server for _, _, server, _ in in_flight)
                kind = rng.choice(["lost"] * 5 + ["unsent"] * 5 + ["busy", "later", "answered", "refused"])
                in_flight.append((now + rng.random() * 1.5, step.attempt, step.server, kind))
                asked += 1
            elif isinstance(step, Abandon):
                in_flight = [flight for flight in in_flight if flight[1] != step.attempt]
                may_have_applied = True
                retry.lost(step.attempt, now, True, rng.random())
            elif isinstance(step, WaitUntil):
                assert step.until > now
                if in_flight and min(in_flight)[0] <= step.until:
                    flight = min(in_flight)
                    in_flight.remove(flight)
                    now, attempt, _, kind = max(now, flight[0]), flight[1], flight[2], flight[3]
                    if kind == "answered":
                        retry.answered(attempt, now)
                    elif kind == "refused":
                        refused, may_have_applied = True, may_have_applied or bool(in_flight)
                        retry.refused(attempt, now)
                    elif kind in ("busy", "later"):
                        may_have_applied = may_have_applied or kind == "later"
                        retry.busy(attempt, now, kind == "later", rng.random())
                    else:
                        may_have_applied = may_have_applied or kind == "lost"
                        retry.lost(attempt, now, kind == "lost", rng.random())
                else:
                    now = step.until
            elif isinstance(step, AnsweredBy):
                break
            elif isinstance(step, Failed):
                assert step.may_have_applied == may_have_applied and (refused or deadline is not None)
                break
