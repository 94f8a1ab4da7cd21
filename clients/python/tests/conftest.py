"""A real server, and a network as bad as one likes between it and the client."""

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

ROOT = Path(__file__).resolve().parents[3]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def binary() -> str:
    """The server: named by JETON_BIN, or built."""
    named = os.environ.get("JETON_BIN")
    if named:
        return named
    cargo = shutil.which("cargo")
    assert cargo, "name the server with JETON_BIN, or install cargo to build it"
    subprocess.run([cargo, "build", "--locked", "--quiet", "--package", "jeton-cli"], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    return str(Path(target) / "debug" / "jeton")


class Server:
    """A server process, which can be killed and started again on the same data."""

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
                assert time.monotonic() < end, "the server does not come up"
                time.sleep(0.01)

    def kill(self) -> None:
        """As a crash: nothing is said, nothing is finished."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@pytest.fixture
def server(binary: str, tmp_path: Path) -> Iterator[Server]:
    server = Server(binary, tmp_path / "data")
    yield server
    server.kill()


class Proxy:
    """Cuts connections at any byte, swallows answers, delays, and sends again what was sent."""

    def __init__(self, server_port: int, seed: int, bytes_max: int = 1000) -> None:
        self._server_port = server_port
        self._chance = random.Random(seed)
        self._bytes_max = bytes_max
        self.connections = 0
        self.repeated = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
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
            rng = self._chance
            fate = {
                "up": rng.randrange(self._bytes_max) if rng.random() < 0.4 else 4 * self._bytes_max,
                "down": rng.randrange(self._bytes_max) if rng.random() < 0.5 else 4 * self._bytes_max,
                "swallow": rng.random() < 0.3,
                "repeat": rng.random() < 0.3,
                "delay": rng.randrange(20) if rng.random() < 0.2 else 0,
            }
            threading.Thread(target=self._pass, args=(client, fate), daemon=True).start()

    def _pass(self, client: socket.socket, fate: Dict[str, int]) -> None:
        said: List[bytes] = []
        with client:
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port), timeout=5)
                with server:
                    self._shovel(client, server, fate, said)
            except OSError:
                pass
        if fate["repeat"]:
            self._repeat(b"".join(said))

    def _shovel(
        self, client: socket.socket, server: socket.socket, fate: Dict[str, int], said: List[bytes]
    ) -> None:
        while True:
            ready, _, _ = select.select([client, server], [], [])
            time.sleep(fate["delay"] / 1000)
            if client in ready:
                data = client.recv(4096)
                passed = data[: fate["up"]]
                fate["up"] -= len(passed)
                said.append(passed)
                server.sendall(passed)
                if not data or len(passed) < len(data):
                    return
            if server in ready:
                data = server.recv(4096)
                passed = data[: fate["down"]]
                fate["down"] -= len(passed)
                client.sendall(passed)
                if not data or (len(passed) < len(data) and not fate["swallow"]):
                    return

    def _repeat(self, said: bytes) -> None:
        """As a network may that repeats what it does not see acknowledged."""
        try:
            with socket.create_connection(("127.0.0.1", self._server_port), timeout=5) as server:
                server.sendall(said)
                server.shutdown(socket.SHUT_WR)
                while server.recv(65536):
                    pass
            self.repeated += 1
        except OSError:
            pass


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server.port, seed=1)
    yield proxy
    proxy.close()


class ScriptedServer:
    """A server that greets, and answers everything else with these bytes; then it says nothing any more."""

    def __init__(self, answers: List[bytes], dead: int = 0) -> None:
        self._answers = list(answers)
        #: So many connections are greeted, and never answered.
        self._dead = dead
        self.asked: List[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            self._dead -= 1
            dead = self._dead >= 0
            while True:
                try:
                    data = client.recv(65536)
                    if not data:
                        return
                    if b"HELLO" in data:
                        client.sendall(b"%0\r\n")
                        continue
                    if dead:
                        continue
                    with self._lock:
                        self.asked.append(data)
                        answer = self._answers.pop(0) if self._answers else b""
                    client.sendall(answer)
                except OSError:
                    return


class Echo:
    """A slow server: the answer to an addition is what was to be added."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            while True:
                try:
                    data = client.recv(65536)
                    if not data:
                        return
                    if b"HELLO" in data:
                        client.sendall(b"%0\r\n")
                        continue
                    time.sleep(self._delay)
                    delta = data.split(b"\r\n")[6]
                    client.sendall(b"*2\r\n:" + delta + b"\r\n+applied\r\n")
                except OSError:
                    return
