"""A real server, a faulty network, scripted servers, and a clock that tests control."""

from __future__ import annotations

import os
import random
import select
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Dict, Iterator, List, Optional

import pytest

from jeton._execute import Clock

ROOT = Path(__file__).resolve().parents[3]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def binary() -> str:
    """The server binary: named by JETON_BIN, or built."""
    if "JETON_BIN" in os.environ:
        return os.environ["JETON_BIN"]
    cargo = shutil.which("cargo")
    assert cargo, "set JETON_BIN to a server binary, or install cargo to build it"
    subprocess.run([cargo, "build", "--locked", "--quiet", "--package", "jeton-cli"], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    return str(Path(target) / "debug" / "jeton")


class Server:
    """A server process that can be killed and started again on the same data."""

    def __init__(self, binary: str, data: Path) -> None:
        self._binary, self._data = binary, data
        self.port = free_port()
        self._http = free_port()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [self._binary, "serve", "--data", str(self._data), "--resp", self.address]
            + ["--http", f"127.0.0.1:{self._http}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self._process.poll() is None, "the server ended"
                assert time.monotonic() < end, "the server does not start"
                time.sleep(0.01)

    def kill(self) -> None:
        """Kills the process, as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@pytest.fixture
def server(binary: str, tmp_path: Path) -> Iterator[Server]:
    server = Server(binary, tmp_path / "data")
    yield server
    server.kill()


class ThreadedServer:
    """Serves each connection in a thread."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.lock = threading.Lock()
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client, self.connections), daemon=True).start()

    def _serve(self, client: socket.socket, number: int) -> None:
        with client:
            try:
                self.serve(client, number)
            except OSError:
                pass

    def serve(self, client: socket.socket, number: int) -> None:
        raise NotImplementedError


class Proxy(ThreadedServer):
    """Forwards connections to a server: cuts them at any byte, drops replies, delays, and replays requests."""

    def __init__(self, server_port: int, seed: int, bytes_max: int = 1000) -> None:
        self._server_port = server_port
        self._rng = random.Random(seed)
        self._bytes_max = bytes_max
        self.replayed = 0
        super().__init__()

    def serve(self, client: socket.socket, number: int) -> None:
        with self.lock:
            rng = self._rng
            faults = {
                "up": rng.randrange(self._bytes_max) if rng.random() < 0.4 else 4 * self._bytes_max,
                "down": rng.randrange(self._bytes_max) if rng.random() < 0.5 else 4 * self._bytes_max,
                "drop_replies": rng.random() < 0.3,
                "replay": rng.random() < 0.3,
                "delay": rng.randrange(20) if rng.random() < 0.2 else 0,
            }
        requests: List[bytes] = []
        try:
            with client, socket.create_connection(("127.0.0.1", self._server_port), timeout=5) as server:
                self._forward(client, server, faults, requests)
        except OSError:
            pass
        if faults["replay"]:
            self._replay(b"".join(requests))

    def _forward(
        self, client: socket.socket, server: socket.socket, faults: Dict[str, int], requests: List[bytes]
    ) -> None:
        while True:
            ready, _, _ = select.select([client, server], [], [])
            time.sleep(faults["delay"] / 1000)
            if client in ready:
                data = client.recv(4096)
                passed = data[: faults["up"]]
                faults["up"] -= len(passed)
                requests.append(passed)
                server.sendall(passed)
                if not data or len(passed) < len(data):
                    return
            if server in ready:
                data = server.recv(4096)
                passed = data[: faults["down"]]
                faults["down"] -= len(passed)
                client.sendall(passed)
                if not data or (len(passed) < len(data) and not faults["drop_replies"]):
                    return

    def _replay(self, requests: bytes) -> None:
        """Sends requests again, as a network may whose acknowledgements are lost."""
        with socket.create_connection(("127.0.0.1", self._server_port), timeout=5) as server:
            server.sendall(requests)
            server.shutdown(socket.SHUT_WR)
            while server.recv(65536):
                pass
        self.replayed += 1


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server.port, seed=1)
    yield proxy
    proxy.close()


class ManualClock(Clock):
    """A clock that stands still while a request is in flight, so that tests do not depend on the speed of the machine.

    A server that does not respond calls `skip`: then the time jumps to the client's next timer. While nothing is in
    flight, the time jumps at once.
    """

    def __init__(self) -> None:
        self._now = 100.0
        self._skips = 0
        self._lock = threading.Lock()

    def now(self) -> float:
        return self._now

    def skip(self) -> None:
        with self._lock:
            self._skips += 1

    def poll(self, until: float, is_idle: bool) -> float:
        with self._lock:
            if not is_idle and self._skips == 0:
                return 0.002
            self._skips -= not is_idle
            self._now = max(self._now, until)
            return 0.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class RespServer(ThreadedServer):
    """A server that accepts every handshake, and passes each request to `respond`."""

    def serve(self, client: socket.socket, number: int) -> None:
        while data := client.recv(65536):
            client.sendall(b"%0\r\n" if b"HELLO" in data else self.respond(data, number))

    def respond(self, request: bytes, connection: int) -> bytes:
        raise NotImplementedError


class ScriptedServer(RespServer):
    """A server with these replies. An empty reply and the end of the list stand for no reply.

    On the first `silent` connections it never replies.
    """

    def __init__(self, replies: List[bytes], clock: ManualClock, silent: int = 0) -> None:
        self._replies = list(replies)
        self._clock = clock
        self._silent = silent
        self.requests: List[bytes] = []
        super().__init__()

    def respond(self, request: bytes, connection: int) -> bytes:
        reply = b""
        if connection > self._silent:
            with self.lock:
                self.requests.append(request)
                reply = self._replies.pop(0) if self._replies else b""
        if not reply:
            self._clock.skip()
        return reply


class EchoServer(RespServer):
    """A server that responds to an addition with its delta. With a clock it holds the first reply until the second."""

    def __init__(self, delay: float = 0.0, clock: Optional[ManualClock] = None) -> None:
        self._delay = delay
        self._clock = clock
        self._second = threading.Event()
        self._count = 0
        super().__init__()

    def respond(self, request: bytes, connection: int) -> bytes:
        with self.lock:
            self._count += 1
            is_first = self._count == 1
        if self._clock is not None:
            if is_first:
                self._clock.skip()
                self._second.wait(60)
            self._second.set()
        time.sleep(self._delay)
        return b"*2\r\n:" + request.split(b"\r\n")[6] + b"\r\n+applied\r\n"
