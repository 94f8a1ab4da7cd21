"""The outbox: stored operations count once, across failures of client, server and network."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import jeton
from conftest import Proxy, Server, free_port
from jeton import Backoff, Client, Outbox

OLD = "018bcfe5-6800-7000-8000-000000000000"
SOURCE = Path(__file__).resolve().parents[1] / "src"


def short_timeouts(address: str) -> Client:
    return Client(address, attempt_timeout=0.25, deadline=2.0, backoff=Backoff(0.002, 0.05))


def test_the_next_process_delivers_stored_operations(server: Server, tmp_path: Path) -> None:
    server.kill()
    path = tmp_path / "outbox"
    client = short_timeouts(server.address)
    with Outbox(path, client) as outbox:
        id = outbox.add("a", 5)
        outbox.add("a", 100, max=50)
        outbox.add_many({"{x}1": 1, "{x}2": 2})
        outbox.set("b", 7)
        assert outbox.pending == 4
        with pytest.raises(jeton.OutboxLocked):
            Outbox(path, client)
    server.start()
    with Outbox(path, client) as outbox:
        assert outbox.flush(60) and not outbox.undelivered()
        assert (client.get("a"), client.get("b"), client.get("{x}2")) == (5, 7, 2)
        assert client.add("a", 5, id=id).replayed, "it was delivered with another id"


def test_undelivered_operations_are_listed_until_forgotten(server: Server, tmp_path: Path) -> None:
    client = short_timeouts(server.address)
    used = client.add("a").id
    with Outbox(tmp_path / "outbox", client) as outbox:
        outbox.add("a", 1, id=OLD)
        outbox.add("a", 2, id=used)
        assert outbox.flush(60)
    with Outbox(tmp_path / "outbox", client) as outbox:
        listed = outbox.undelivered()
        assert [(one.id, one.expired) for one in listed] == [(OLD, True), (used, False)]
        assert "older than the window" in listed[0].reason and listed[0].operation == "add 1 to 'a'"
        assert outbox.forget(OLD) and not outbox.forget(OLD)
        assert len(outbox.undelivered()) == 1
    assert client.get("a") == 1


def test_invalid_operations_and_foreign_files_are_rejected(tmp_path: Path) -> None:
    client = short_timeouts(f"127.0.0.1:{free_port()}")
    with Outbox(tmp_path / "outbox", client, operations_max=2) as outbox:
        with pytest.raises(jeton.InvalidRequest):
            outbox.add("a", 1, id="order-7")
        with pytest.raises(jeton.InvalidRequest):
            outbox.add("")
        outbox.add("a")
        outbox.add("a")
        with pytest.raises(jeton.OutboxFull):
            outbox.add("a")
    (tmp_path / "other").write_bytes(b"not an outbox, and longer than an empty file" * 30)
    with pytest.raises(jeton.OutboxError):
        Outbox(tmp_path / "other", client)


PROGRAM = """
import sys
from jeton import Backoff, Client, Outbox
client = Client(sys.argv[1], attempt_timeout=0.25, deadline=2.0, backoff=Backoff(0.002, 0.05))
outbox = Outbox(sys.argv[2], client)
while True:
    print(outbox.add("a"), flush=True)
"""


def test_counts_are_exact_after_the_client_is_killed(
    server: Server, proxy: Proxy, tmp_path: Path
) -> None:
    rng = random.Random(7)
    path = tmp_path / "outbox"
    ids = []
    kills = 6
    for _ in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, proxy.address, str(path)],
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": str(SOURCE)},
            text=True,
        )
        assert process.stdout is not None
        ids.append(process.stdout.readline().strip())
        time.sleep(rng.random() * 0.3)
        process.kill()
        ids += process.stdout.read().split()
        process.wait()
    client = Client(server.address)
    with Outbox(path, client) as outbox:
        assert outbox.flush(60) and not outbox.undelivered()
    whole = [id for id in ids if len(id) == 36]
    assert len(set(whole)) == len(whole), "an id was generated twice"
    for id in whole:
        assert client.operation("a", id).applied, "a stored operation was not delivered"
    value = client.get("a")
    # Each process may have stored one operation without printing its id.
    assert isinstance(value, int) and len(whole) <= value <= len(whole) + kills
