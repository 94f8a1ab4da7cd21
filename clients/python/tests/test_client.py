"""The client for threads, against a real server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import List, Type

import pytest

import jeton
from conftest import Echo, Proxy, ScriptedServer, Server, free_port
from jeton import Backoff, Client, Status

OLD = "018bcfe5-6800-7000-8000-000000000000"


def short_timeouts(*addresses: str, deadline: float = 5.0) -> Client:
    return Client(addresses, attempt_timeout=0.25, deadline=deadline, backoff=Backoff(0.002, 0.05))


def test_every_call_does_what_it_says(server: Server) -> None:
    with Client(server.address) as client:
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
        fate = client.operation(outcome.id)
        assert (fate.word, fate.applied, fate.values) == ("known", True, [5])
        assert client.operation(client.new_id()).word == "unknown"


def test_errors_surface_as_what_they_are(server: Server) -> None:
    with Client(server.address) as client:
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
            # An id that is missing where there should be one must not become a new one.
            client.add("a", id="")


def test_nobody_there_is_certain_and_in_time() -> None:
    begun = time.monotonic()
    with pytest.raises(jeton.Unreachable):
        short_timeouts(f"127.0.0.1:{free_port()}", deadline=0.3).add("a")
    assert time.monotonic() - begun < 5


def test_busy_is_retried_and_then_said() -> None:
    scripted = ScriptedServer([b"-BUSY a\r\n", b"-MISCONF b\r\n", b"*2\r\n:3\r\n+applied\r\n"])
    assert short_timeouts(scripted.address).add("a").value == 3
    assert len(scripted.asked) == 3 and len(set(scripted.asked)) == 1, "each attempt is the same bytes"
    with pytest.raises(jeton.Busy):
        # So patient between attempts that the deadline ends no attempt, whatever the machine is busy with.
        patient = Backoff(1e6, 1e6)
        Client([ScriptedServer([b"-BUSY still\r\n"]).address], deadline=1.0, backoff=patient).add("a")


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
def test_what_time_does_not_mend_is_said_at_once(code: str, error: Type[jeton.JetonError]) -> None:
    scripted = ScriptedServer([f"-{code} no\r\n".encode(), b"*2\r\n:3\r\n+applied\r\n"])
    with pytest.raises(error):
        short_timeouts(scripted.address).add("a")
    assert len(scripted.asked) == 1


def test_a_late_answer_is_nobody_elses() -> None:
    client = Client(Echo(0.2).address)
    with pytest.raises(jeton.UnknownOutcome):
        client.add("a", 1, deadline=0.05)
    assert client.add("a", 2).value == 2


def test_an_unknown_outcome_carries_its_id() -> None:
    silent = ScriptedServer([])
    client = short_timeouts(silent.address, deadline=0.7)
    id = client.new_id()
    with pytest.raises(jeton.UnknownOutcome) as unknown:
        client.add("a", id=id)
    assert unknown.value.id == id and not unknown.value.certain
    assert len(silent.asked) >= 2, "it did not try again"
    # The first attempt may have been done before the right to it was taken away.
    with pytest.raises(jeton.UnknownOutcome):
        short_timeouts(ScriptedServer([b"", b"-NOPERM not any more\r\n"]).address).add("a")
    with pytest.raises(jeton.NoPermission):
        short_timeouts(ScriptedServer([b"", b"-NOPERM not any more\r\n"]).address).get("a")
    with pytest.raises(jeton.UnknownOutcome):
        short_timeouts(ScriptedServer([b"*2\r\n:1\r\n+perhaps\r\n"]).address).add("a")


def test_the_next_address_is_tried_at_once_and_kept(server: Server) -> None:
    silent = ScriptedServer([])
    client = Client([f"127.0.0.1:{free_port()}", silent.address, server.address], attempt_timeout=0.3)
    for _ in range(20):
        client.add("a")
    assert len(silent.asked) == 1, "the silent one is asked again and again"
    assert client.get("a") == 20


def test_a_hedge_wins_over_a_silent_server(server: Server) -> None:
    silent = ScriptedServer([])
    client = Client([silent.address, server.address], hedge_after=0.01, attempt_timeout=60, deadline=60)
    begun = time.monotonic()
    assert client.add("a").value == 1
    assert time.monotonic() - begun < 30, "the silent one was waited for"


def add_surely(client: Client, key: str, times: int) -> None:
    """Adds 1, as often as it takes to be certain that it was counted. Never with another id."""
    for _ in range(times):
        id = client.new_id()
        while True:
            try:
                assert client.add(key, id=id).applied
                break
            except (jeton.UnknownOutcome, jeton.Unreachable, jeton.Busy):
                pass


def crowd(client: Client, threads: int, each: int) -> None:
    errors: List[BaseException] = []

    def work() -> None:
        try:
            add_surely(client, "clicks", each)
        except BaseException as error:
            errors.append(error)

    crowd = [threading.Thread(target=work) for _ in range(threads)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert not errors


def test_counts_are_exact_in_a_storm(server: Server, proxy: Proxy) -> None:
    crowd(short_timeouts(proxy.address), 8, 150)
    assert Client(server.address).get("clicks") == 1200
    assert proxy.connections > 20 and proxy.repeated > 3, "there was no storm"


def test_counts_are_exact_while_the_server_is_killed(server: Server, proxy: Proxy) -> None:
    client = short_timeouts(proxy.address)
    counting = threading.Thread(target=crowd, args=(client, 4, 200))
    counting.start()
    kills = 0
    while counting.is_alive():
        counting.join(0.15)
        server.kill()
        server.start()
        kills += 1
    assert Client(server.address).get("clicks") == 800
    assert kills >= 2


FORKING = """
import os, sys
from jeton import Client
client = Client(sys.argv[1])
client.add("a", 5)
child = os.fork()
delta = 1 if child == 0 else 1000
for _ in range(5):
    # The answer takes its time, so both are waiting: on one connection, one would get the other's answer.
    outcome = client.add("a", delta)
    assert outcome.value == delta
    print(outcome.id, flush=True)
if child:
    sys.exit(1 if os.waitpid(child, 0)[1] else 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_of_a_fork_has_its_own_connections_and_ids() -> None:
    source = str(Path(__file__).resolve().parents[1] / "src")
    program = [sys.executable, "-c", FORKING, Echo(0.2).address]
    ended = subprocess.run(program, env={"PYTHONPATH": source}, timeout=60, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0
    assert len(set(ended.stdout.split())) == 10
