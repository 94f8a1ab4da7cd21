"""The blocking client and the asyncio client, against a real server and scripted ones."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, List, Tuple, Type, Union

import pytest

import jeton
from conftest import EchoServer, ManualClock, Proxy, ScriptedServer, Server, free_port
from jeton import AsyncClient, Backoff, Client, Status
from jeton._execute import Clock

OLD = "018bcfe5-6800-7000-8000-000000000000"
APPLIED = b"*2\r\n:3\r\n+applied\r\n"


class BlockingAsyncClient:
    """An `AsyncClient` whose calls block, with an event loop of its own."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._loop = asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            result = getattr(self._client, name)(*arguments, **options)
            return self._loop.run_until_complete(result) if inspect.isawaitable(result) else result

        return call

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


#: Creates a client of these addresses, with the system's clock or another.
Connect = Callable[..., Any]


@pytest.fixture(params=[Client, AsyncClient])
def connect(request: pytest.FixtureRequest) -> Any:
    clients: List[Any] = []

    def connect(*addresses: str, clock: Clock = Clock(), **options: Any) -> Any:
        # Long timeouts: with a manual clock they also limit the time in which a loaded machine connects.
        client = request.param(addresses, **{"attempt_timeout": 20.0, "deadline": 50.0, **options})
        client._clock = clock
        clients.append(client if request.param is Client else BlockingAsyncClient(client))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def test_every_call_works(server: Server, connect: Connect) -> None:
    client = connect(server.address)
    outcome = client.add("clicks", 5)
    assert (outcome.value, outcome.status, outcome.replayed) == (5, Status.APPLIED, False)
    again = client.add("clicks", 5, id=outcome.id)
    assert (again.value, again.replayed, again.id) == (5, True, outcome.id)
    refused = client.add("clicks", -6, min=0)
    assert (refused.value, refused.status, refused.applied) == (5, Status.REFUSED, False)
    assert client.add("clicks", -6, min=0, id=refused.id).replayed
    assert client.add_many({"{a}x": 1, "{a}y": 2}).values == [1, 2]
    assert client.set("clicks", 70).value == 70
    assert client.get("clicks") == 70
    assert client.reset("clicks").value == 0
    assert client.delete("clicks").applied
    assert client.get("clicks") is None
    client.set("name", b"a\r\nb")
    assert client.get("name") == b"a\r\nb"
    found = client.operation("clicks", outcome.id)
    assert (found.status, found.applied, found.values) == ("known", True, [5])
    assert client.operation("clicks", client.new_id()).status == "unknown"


def test_every_server_error_is_mapped(server: Server, connect: Connect) -> None:
    client = connect(server.address)
    id = client.add("a").id
    with pytest.raises(jeton.IdMismatch):
        client.add("a", 2, id=id)
    with pytest.raises(jeton.IdExpired) as expired:
        client.add("a", id=OLD)
    assert expired.value.id == OLD and not expired.value.certain
    with pytest.raises(jeton.IdFuture):
        client.add("a", id="0fffffff-6800-7000-8000-000000000000")
    with pytest.raises(jeton.IdFormat) as format:
        client.add("a", id="x")
    assert format.value.certain and format.value.code == "IDFORMAT"
    with pytest.raises(jeton.NoTable):
        client.add("nowhere/a")
    client.set("text", "x")
    with pytest.raises(jeton.Refused):
        client.add("text")
    with pytest.raises(ValueError):
        client.add("")
    with pytest.raises(jeton.InvalidRequest):
        # An empty id must not be replaced by a new one.
        client.add("a", id="")


def test_an_unreachable_server_is_a_certain_error(connect: Connect, clock: ManualClock) -> None:
    with pytest.raises(jeton.Unreachable) as raised:
        connect(f"127.0.0.1:{free_port()}", clock=clock).add("a")
    assert raised.value.certain


def test_a_busy_server_is_retried_until_the_deadline(connect: Connect, clock: ManualClock) -> None:
    scripted = ScriptedServer([b"-BUSY a\r\n", b"-MISCONF b\r\n", APPLIED], clock)
    assert connect(scripted.address, clock=clock).add("a").value == 3
    assert len(scripted.requests) == 3 and len(set(scripted.requests)) == 1, "attempts differ"
    busy = ScriptedServer([b"-BUSY still\r\n"] * 1000, clock)
    with pytest.raises(jeton.Busy):
        connect(busy.address, clock=clock, backoff=Backoff(1.0, 10.0)).add("a")


@pytest.mark.parametrize(
    "code, error",
    [
        ("IDEXPIRED", jeton.IdExpired),
        ("IDMISMATCH", jeton.IdMismatch),
        ("IDFUTURE", jeton.IdFuture),
        ("IDREQUIRED", jeton.IdRequired),
        ("IDFORMAT", jeton.IdFormat),
        ("NOSESSION", jeton.NoSession),
        ("FENCED", jeton.Fenced),
        ("NOAUTH", jeton.NoAuth),
        ("NOPERM", jeton.NoPermission),
        ("NOTABLE", jeton.NoTable),
        ("ERR", jeton.Refused),
    ],
)
def test_permanent_errors_are_not_retried(
    connect: Connect, clock: ManualClock, code: str, error: Type[jeton.JetonError]
) -> None:
    scripted = ScriptedServer([f"-{code} no\r\n".encode(), APPLIED], clock)
    with pytest.raises(error):
        connect(scripted.address, clock=clock).add("a")
    assert len(scripted.requests) == 1


def test_a_late_reply_is_not_taken_for_another(connect: Connect, clock: ManualClock) -> None:
    client = connect(EchoServer(clock=clock).address, clock=clock, connections=1)
    with pytest.raises(jeton.UnknownOutcome):
        client.add("a", 1, deadline=5.0)
    assert client.add("a", 2).value == 2


def test_no_reply_is_an_unknown_outcome(connect: Connect, clock: ManualClock) -> None:
    def scripted(*replies: bytes) -> Tuple[ScriptedServer, Any]:
        server = ScriptedServer(list(replies), clock)
        return server, connect(server.address, clock=clock)

    silent, client = scripted()
    id = client.new_id()
    with pytest.raises(jeton.UnknownOutcome) as unknown:
        client.add("a", id=id)
    assert unknown.value.id == id and not unknown.value.certain
    assert len(silent.requests) >= 2, "the client did not retry"
    # The first attempt may have been applied before the right was withdrawn.
    with pytest.raises(jeton.UnknownOutcome):
        scripted(b"", b"-NOPERM not any more\r\n")[1].add("a")
    with pytest.raises(jeton.NoPermission):
        scripted(b"", b"-NOPERM not any more\r\n")[1].get("a")
    with pytest.raises(jeton.UnknownOutcome):
        scripted(b"*2\r\n:1\r\n+perhaps\r\n")[1].add("a")
    with pytest.raises(jeton.Unreachable):
        scripted(b"+perhaps\r\n")[1].get("a")


def test_a_silent_connection_is_closed_and_replaced(connect: Connect, clock: ManualClock) -> None:
    scripted = ScriptedServer([b"*2\r\n:3\r\n+replayed\r\n"], clock, silent=2)
    assert connect(scripted.address, clock=clock).add("a").replayed
    assert scripted.connections == 3


def test_the_next_address_is_tried_at_once_and_preferred(
    server: Server, connect: Connect, clock: ManualClock
) -> None:
    silent = ScriptedServer([], clock)
    client = connect(f"127.0.0.1:{free_port()}", silent.address, server.address, clock=clock)
    for _ in range(20):
        client.add("a")
    assert len(silent.requests) == 1, "the silent server receives requests"
    assert client.get("a") == 20


def test_a_hedge_wins_over_a_silent_server(server: Server, connect: Connect, clock: ManualClock) -> None:
    silent = ScriptedServer([], clock)
    client = connect(silent.address, server.address, clock=clock, hedge_after=0.01)
    before = clock.now()
    assert client.add("a").value == 1
    assert clock.now() - before < 1, "the client waited for the silent server"


def short_timeouts(address: str) -> Client:
    return Client(address, attempt_timeout=0.25, deadline=5.0, backoff=Backoff(0.002, 0.05))


def add_until_confirmed(client: Client, key: str, times: int) -> None:
    """Adds 1 until it is certain that it was counted, always with the same id."""
    for _ in range(times):
        id = client.new_id()
        while True:
            try:
                assert client.add(key, id=id).applied
                break
            except (jeton.UnknownOutcome, jeton.Unreachable, jeton.Busy):
                pass


def add_concurrently(client: Client, threads: int, each: int) -> None:
    errors: List[BaseException] = []

    def work() -> None:
        try:
            add_until_confirmed(client, "clicks", each)
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=work) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert not errors


def test_counts_are_exact_over_a_faulty_network(server: Server, proxy: Proxy) -> None:
    add_concurrently(short_timeouts(proxy.address), 8, 150)
    assert Client(server.address).get("clicks") == 1200
    assert proxy.connections > 20 and proxy.replayed > 3, "the network had too few faults"


def test_counts_are_exact_while_the_server_is_killed(server: Server, proxy: Proxy) -> None:
    counting = threading.Thread(target=add_concurrently, args=(short_timeouts(proxy.address), 4, 200))
    counting.start()
    kills = 0
    while counting.is_alive():
        counting.join(0.15)
        server.kill()
        server.start()
        kills += 1
    assert Client(server.address).get("clicks") == 800
    assert kills >= 2


def test_concurrent_calls_get_their_own_replies(server: Server) -> None:
    async def calls() -> None:
        async with AsyncClient(server.address) as client:
            outcomes = await asyncio.gather(*(client.add(f"own:{number}", number) for number in range(500)))
            assert [outcome.value for outcome in outcomes] == list(range(500))

    asyncio.run(calls())


def test_a_client_works_in_a_second_event_loop(server: Server) -> None:
    client = AsyncClient(server.address)
    assert asyncio.run(client.add("a")).value == 1
    assert asyncio.run(client.add("a")).value == 2


def test_a_cancelled_call_does_not_affect_others(server: Server) -> None:
    async def calls() -> None:
        async with AsyncClient(server.address, connections=1) as client:
            for number in range(100):
                cancelled = asyncio.create_task(client.add("cancelled"))
                kept = asyncio.create_task(client.add(f"own:{number}", number))
                # Cancels at different points of the call.
                await asyncio.sleep(0 if number % 2 else 0.0005)
                cancelled.cancel()
                # A wrong order of replies would return the value of another operation.
                assert (await kept).value == number

    asyncio.run(calls())


def test_concurrent_counts_are_exact_while_it_is_killed(server: Server, proxy: Proxy) -> None:
    async def add(client: AsyncClient, times: int) -> None:
        for _ in range(times):
            id = client.new_id()
            while True:
                try:
                    assert (await client.add("clicks", id=id)).applied
                    break
                except (jeton.UnknownOutcome, jeton.Unreachable, jeton.Busy):
                    pass

    async def run() -> None:
        options: Any = {"attempt_timeout": 0.25, "deadline": 5.0, "backoff": Backoff(0.002, 0.05)}
        async with AsyncClient(proxy.address, **options) as client:
            killing = asyncio.create_task(kill_repeatedly())
            try:
                await asyncio.gather(*(add(client, 50) for _ in range(30)))
            finally:
                killing.cancel()
                await asyncio.gather(killing, return_exceptions=True)

    async def kill_repeatedly() -> None:
        while True:
            await asyncio.sleep(0.3)
            # A cancellation must not leave the server stopped.
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, restart))

    def restart() -> None:
        server.kill()
        server.start()

    asyncio.run(run())
    value: Union[int, bytes, None] = Client(server.address).get("clicks")
    assert value == 1500
    assert proxy.connections > 10, "the network had too few faults"


FORKING = """
import os, sys
from jeton import Client
client = Client(sys.argv[1])
client.add("a", 5)
child = os.fork()
delta = 1 if child == 0 else 1000
for _ in range(5):
    # Replies are slow, so both processes wait: on one connection, one would get the reply to the other.
    outcome = client.add("a", delta)
    assert outcome.value == delta
    print(outcome.id, flush=True)
if child:
    sys.exit(1 if os.waitpid(child, 0)[1] else 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_has_its_own_connections_and_ids() -> None:
    source = str(Path(__file__).resolve().parents[1] / "src")
    program = [sys.executable, "-c", FORKING, EchoServer(0.2).address]
    ended = subprocess.run(program, env={"PYTHONPATH": source}, timeout=60, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0
    assert len(set(ended.stdout.split())) == 10
