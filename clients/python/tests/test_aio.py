"""The client for asyncio, against a real server."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Coroutine, Union

import pytest

import jeton
from conftest import Echo, Proxy, ScriptedServer, Server, free_port
from jeton import AsyncClient, Backoff, Client, Status


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 120))


def short_timeouts(*addresses: str, deadline: float = 5.0) -> AsyncClient:
    return AsyncClient(addresses, attempt_timeout=0.25, deadline=deadline, backoff=Backoff(0.002, 0.05))


def test_every_call_does_what_it_says(server: Server) -> None:
    async def calls() -> None:
        async with AsyncClient(server.address) as client:
            outcome = await client.add("clicks", 5)
            assert (outcome.value, outcome.status, outcome.replayed) == (5, Status.APPLIED, False)
            assert (await client.add("clicks", 5, id=outcome.id)).replayed
            assert (await client.add("clicks", -6, min=0)).status is Status.REFUSED
            assert (await client.add_many({"{a}x": 1, "{a}y": 2})).values == [1, 2]
            assert (await client.set("clicks", 70)).value == 70
            assert await client.get("clicks") == 70
            assert (await client.reset("clicks")).value == 0
            assert (await client.delete("clicks")).applied
            assert await client.get("clicks") is None
            assert (await client.operation(outcome.id)).values == [5]
            with pytest.raises(jeton.IdMismatch):
                await client.add("clicks", 6, id=outcome.id)

    run(calls())


def test_many_callers_share_few_connections_and_get_their_own_answers(server: Server) -> None:
    async def calls() -> None:
        async with AsyncClient(server.address) as client:
            outcomes = await asyncio.gather(*(client.add(f"own:{number}", number) for number in range(500)))
            assert [outcome.value for outcome in outcomes] == list(range(500))

    run(calls())


def test_one_loop_after_the_other_may_use_it(server: Server) -> None:
    client = AsyncClient(server.address)

    async def call() -> None:
        await client.add("a")

    run(call())
    run(call())
    assert Client(server.address).get("a") == 2


def test_a_caller_that_goes_away_disturbs_nobody(server: Server) -> None:
    async def calls() -> None:
        async with AsyncClient(server.address, connections=1) as client:
            for number in range(100):
                gone = asyncio.create_task(client.add("gone"))
                kept = asyncio.create_task(client.add(f"own:{number}", number))
                await asyncio.sleep(0 if number % 2 else 0.0005)
                gone.cancel()
                # With answers out of step, this would be the answer to another.
                assert (await kept).value == number

    run(calls())


def test_what_goes_wrong_is_what_it_is(server: Server) -> None:
    async def calls() -> None:
        with pytest.raises(jeton.Unreachable):
            await short_timeouts(f"127.0.0.1:{free_port()}", deadline=0.3).add("a")
        busy = ScriptedServer([b"-BUSY a\r\n", b"*2\r\n:3\r\n+applied\r\n"])
        assert (await short_timeouts(busy.address).add("a")).value == 3
        assert len(set(busy.asked)) == 1, "each attempt is the same bytes"
        with pytest.raises(jeton.Busy):
            # So patient between attempts that the deadline ends no attempt, whatever the machine is busy with.
            patient = Backoff(1e6, 1e6)
            await AsyncClient([ScriptedServer([b"-BUSY still\r\n"]).address], deadline=1.0, backoff=patient).add("a")
        with pytest.raises(jeton.UnknownOutcome):
            await short_timeouts(ScriptedServer([]).address, deadline=0.7).add("a")
        with pytest.raises(jeton.UnknownOutcome):
            await short_timeouts(ScriptedServer([b"", b"-NOPERM\r\n"]).address).add("a")
        # A connection that is dead is not asked again and again.
        dying = ScriptedServer([b"*2\r\n:3\r\n+replayed\r\n"], dead=2)
        assert (await short_timeouts(dying.address).add("a")).replayed
        late = AsyncClient(Echo(0.2).address, connections=1)
        with pytest.raises(jeton.UnknownOutcome):
            await late.add("a", 1, deadline=0.05)
        assert (await late.add("a", 2)).value == 2, "a late answer is nobody else's"
        silent = ScriptedServer([])
        hedging = AsyncClient([silent.address, server.address], hedge_after=0.01, attempt_timeout=60, deadline=60)
        begun = time.monotonic()
        assert (await hedging.add("hedged")).value == 1
        assert time.monotonic() - begun < 30, "the silent one was waited for"

    run(calls())


def test_counts_are_exact_in_a_storm(server: Server, proxy: Proxy) -> None:
    async def add_surely(client: AsyncClient, times: int) -> None:
        for _ in range(times):
            id = client.new_id()
            while True:
                try:
                    assert (await client.add("clicks", id=id)).applied
                    break
                except (jeton.UnknownOutcome, jeton.Unreachable, jeton.Busy):
                    pass

    async def crowd() -> None:
        async with short_timeouts(proxy.address) as client:
            counting = asyncio.gather(*(add_surely(client, 50) for _ in range(30)))
            killing = asyncio.create_task(kill_now_and_then())
            try:
                await counting
            finally:
                killing.cancel()
                await asyncio.gather(killing, return_exceptions=True)

    async def kill_now_and_then() -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0.3)
            # Not to be cancelled between the two.
            await asyncio.shield(loop.run_in_executor(None, restart))

    def restart() -> None:
        server.kill()
        server.start()

    run(crowd())
    held: Union[int, bytes, None] = Client(server.address).get("clicks")
    assert held == 1500
    assert proxy.connections > 10, "there was no storm"
