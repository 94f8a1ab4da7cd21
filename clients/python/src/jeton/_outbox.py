"""An outbox stores operations with their ids on disk before it sends them.

They survive a crash of the client. A stored operation is delivered, by this process or a later one, always with the
same id; or it stays in the list of undelivered operations until the program forgets it. Operations are delivered
concurrently, without an order between them.

The file is a SQLite database, the durable store of the standard library.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from dataclasses import dataclass
from typing import Callable, List, Optional, Tuple, Union

from . import _commands as commands
from ._client import Client
from ._errors import (
    IdExpired,
    IdFuture,
    InvalidRequest,
    JetonError,
    NoAuth,
    NoPermission,
    NoTable,
    Refused,
    WrongPass,
)
from ._id_generator import millis_of
from ._commands import Changes, Key

# Seconds between deliveries while the servers are down or an operator must fix them.
_PAUSE = 0.5

# Deadline of one delivery in seconds; close() waits for it.
_TRY = 2.0

_TABLE = """
CREATE TABLE IF NOT EXISTS parcels (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    what TEXT NOT NULL,
    command BLOB NOT NULL,
    stuck TEXT,
    expired INTEGER
)
"""


class OutboxError(Exception):
    """An outbox cannot be opened, or does not store an operation."""


class OutboxLocked(OutboxError):
    """Another process has it open."""


class OutboxFull(OutboxError):
    """The limit is reached. Nothing was stored."""


class OutboxBroken(OutboxError):
    """A write failed. Whether the operation is stored is unknown; if it is, it is delivered later."""


@dataclass(frozen=True)
class Undelivered:
    """An operation that could not be delivered."""

    id: str
    #: Description of the operation.
    operation: str
    #: The server's error.
    reason: str
    #: Whether the id is older than the window: then the operation may have been counted.
    expired: bool


_Delivery = Tuple[int, str, bytes]


class Outbox:
    """A durable queue of operations. Threads may share it; processes may not.

    `operations_max` limits the stored operations, `workers` the operations in flight.
    """

    def __init__(
        self,
        path: Union[str, "os.PathLike[str]"],
        client: Client,
        *,
        operations_max: int = 100_000,
        workers: int = 4,
    ) -> None:
        self._client = client
        self._operations_max = operations_max
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._stop = threading.Event()
        self._closed = False
        try:
            self._disk = sqlite3.connect(os.fspath(path), timeout=0, isolation_level=None, check_same_thread=False)
            # One process at a time; a commit is durable.
            for statement in (
                "PRAGMA locking_mode=EXCLUSIVE",
                "PRAGMA journal_mode=WAL",
                "PRAGMA synchronous=FULL",
                "BEGIN EXCLUSIVE",
                _TABLE,
                "COMMIT",
            ):
                self._disk.execute(statement)
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise OutboxLocked(f"the outbox {os.fspath(path)} is open in another process") from error
            raise OutboxError(f"cannot open the outbox {os.fspath(path)}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise OutboxError(f"{os.fspath(path)} is not an outbox: {error}") from error
        self._queue: queue.SimpleQueue[Optional[_Delivery]] = queue.SimpleQueue()
        rows = self._disk.execute("SELECT number, id, command FROM parcels WHERE stuck IS NULL ORDER BY number")
        pending: List[_Delivery] = rows.fetchall()
        self._pending = len(pending)
        self._stored = int(self._disk.execute("SELECT count(*) FROM parcels").fetchone()[0])
        for delivery in pending:
            self._queue.put(delivery)
        self._threads = [
            threading.Thread(target=self._work, name="jeton-outbox", daemon=True) for _ in range(max(workers, 1))
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Outbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def add(
        self,
        key: Key,
        delta: int = 1,
        *,
        id: Optional[str] = None,
        min: Optional[int] = None,
        max: Optional[int] = None,
    ) -> str:
        """Stores an addition to a counter, and returns its id. When this returns, it is on disk."""
        return self._store(f"add {delta} to {key!r}", id, lambda id: commands.add(key, delta, id, min, max))

    def add_many(self, changes: Changes, *, id: Optional[str] = None) -> str:
        """Stores an addition to several counters with the same hash tag, all or none."""
        listed = commands.pairs(changes)
        what = " and ".join(f"add {delta} to {key!r}" for key, delta in listed)
        return self._store(what, id, lambda id: commands.add_many(listed, id))

    def set(self, key: Key, value: Union[int, str, bytes], *, id: Optional[str] = None) -> str:
        """Stores a write of a counter or of bytes."""
        return self._store(f"set {key!r} to {value!r}", id, lambda id: commands.set_(key, value, id))

    def reset(self, key: Key, *, id: Optional[str] = None) -> str:
        """Stores a reset of a counter."""
        return self._store(f"reset {key!r}", id, lambda id: commands.reset(key, id))

    def delete(self, key: Key, *, id: Optional[str] = None) -> str:
        """Stores a deletion."""
        return self._store(f"delete {key!r}", id, lambda id: commands.delete(key, id))

    @property
    def pending(self) -> int:
        """Number of operations that are not delivered yet."""
        with self._lock:
            return self._pending

    def flush(self, timeout: Optional[float] = None) -> bool:
        """Waits until no operation is pending. Returns False after the timeout.

        Operations that failed are in `undelivered`.
        """
        with self._idle:
            return self._idle.wait_for(lambda: self._pending == 0, timeout)

    def undelivered(self) -> List[Undelivered]:
        """Operations that could not be delivered, oldest first. They stay until the program forgets them."""
        statement = "SELECT id, what, stuck, expired FROM parcels WHERE stuck IS NOT NULL ORDER BY number"
        with self._lock:
            rows: List[Tuple[str, str, str, int]] = self._disk.execute(statement).fetchall()
        return [Undelivered(id, what, why, bool(expired)) for id, what, why, expired in rows]

    def forget(self, id: str) -> bool:
        """Removes an operation from the undelivered ones. Returns False if it is not among them."""
        with self._lock:
            gone = self._disk.execute("DELETE FROM parcels WHERE stuck IS NOT NULL AND id = ?", (id,)).rowcount
            self._stored -= gone
        return gone > 0

    def close(self) -> None:
        """Closes the outbox. The next process delivers the pending operations."""
        self._stop.set()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        with self._lock:
            self._closed = True
            self._disk.close()

    def _store(self, what: str, id: Optional[str], make: Callable[[str], bytes]) -> str:
        # The id exists before the operation is stored, and does not change.
        id = self._client.new_id() if id is None else id
        if millis_of(id) is None:
            raise InvalidRequest(
                f"an outbox accepts only UUIDs of version 7: {id} has no time, and might count twice if sent late"
            )
        command = make(id)
        with self._lock:
            if self._closed:
                raise OutboxError("the outbox is closed")
            if self._stored >= self._operations_max:
                raise OutboxFull(f"the outbox holds {self._operations_max} operations that are not delivered")
            try:
                row = self._disk.execute(
                    "INSERT INTO parcels (id, what, command) VALUES (?, ?, ?)", (id, what, command)
                ).lastrowid
            except sqlite3.Error as error:
                raise OutboxBroken(f"the outbox is broken: {error}") from error
            assert row is not None
            self._stored += 1
            self._pending += 1
        self._queue.put((row, id, command))
        return id

    def _work(self) -> None:
        while True:
            delivery = self._queue.get()
            if delivery is None or self._stop.is_set():
                return
            self._deliver(delivery)

    def _deliver(self, delivery: _Delivery) -> None:
        number, id, command = delivery
        while not self._stop.is_set():
            try:
                self._client._send(command, id, _TRY)
            except JetonError as error:
                if _is_permanent(error):
                    self._note(
                        "UPDATE parcels SET stuck = ?, expired = ? WHERE number = ?",
                        (str(error), int(isinstance(error, IdExpired)), number),
                        0,
                    )
                    return
                self._stop.wait(_PAUSE)
            else:
                # Not synced: if the record is lost, the operation is sent again and counts once.
                self._note("DELETE FROM parcels WHERE number = ?", (number,), 1)
                return

    def _note(self, statement: str, values: Tuple[Union[int, str], ...], gone: int) -> None:
        with self._idle:
            try:
                if gone:
                    self._disk.execute("PRAGMA synchronous=NORMAL")
                self._disk.execute(statement, values)
                if gone:
                    self._disk.execute("PRAGMA synchronous=FULL")
            except sqlite3.Error:
                # The next process sends it again, which is safe; the next operation reports the disk error.
                pass
            self._stored -= gone
            self._pending -= 1
            self._idle.notify_all()


def _is_permanent(error: JetonError) -> bool:
    """Whether neither a retry nor an operator can make the delivery succeed."""
    if isinstance(error, Refused):
        return not isinstance(error, (NoAuth, WrongPass, NoPermission, NoTable, IdFuture))
    return isinstance(error, IdExpired)
