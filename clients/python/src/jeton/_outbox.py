"""An outbox: operations are on disk, each with its id, before they are sent.

So they survive the crash of the client itself. An operation that was taken is delivered, by this process or a later
one, always with the id that it was taken with; or it is in the list of what could not be delivered, until its owner
takes it from there. Operations are delivered side by side: between two of them there is no order.

The file is a SQLite database, because that is the one store in the standard library that survives crashes.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from dataclasses import dataclass
from typing import Callable, List, Optional, Tuple, Union

from . import _verbs as verbs
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
from ._mint import millis_of
from ._verbs import Changes, Key

# How long an operation waits after a failure that takes a person to mend, or a server to come back.
_PAUSE = 0.5

# How long one try to deliver takes at most: closing waits for it.
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
    """An outbox cannot be opened, or does not take an operation."""


class OutboxLocked(OutboxError):
    """Another process has it open."""


class OutboxFull(OutboxError):
    """It holds as much as it may. Nothing was taken."""


class OutboxBroken(OutboxError):
    """The disk failed. Whether the operation is in the file is not known; if it is, it is delivered later."""


@dataclass(frozen=True)
class Undelivered:
    """An operation that could not be delivered."""

    id: str
    #: What it was.
    what: str
    #: What the server said.
    why: str
    #: Whether it is too old: then it may have been counted, or not.
    expired: bool


_Parcel = Tuple[int, str, bytes]


class Outbox:
    """Operations on disk, on their way to a server. Threads may share it; processes may not.

    `operations_max` is how many it holds that are not delivered, `workers` how many are sent at the same time.
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
            # One process at a time; and what is committed is on disk.
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
            raise OutboxError(f"{os.fspath(path)} is no outbox: {error}") from error
        self._parcels: queue.SimpleQueue[Optional[_Parcel]] = queue.SimpleQueue()
        kept = self._disk.execute("SELECT number, id, command FROM parcels WHERE stuck IS NULL ORDER BY number")
        pending: List[_Parcel] = kept.fetchall()
        self._pending = len(pending)
        self._kept = int(self._disk.execute("SELECT count(*) FROM parcels").fetchone()[0])
        for parcel in pending:
            self._parcels.put(parcel)
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
        """Takes an addition to a counter. When this returns, it is on disk. The id that it was taken with."""
        return self._keep(f"add {delta} to {key!r}", id, lambda id: verbs.add(key, delta, id, min, max))

    def add_many(self, changes: Changes, *, id: Optional[str] = None) -> str:
        """Takes an addition to several counters of one partition, all or none."""
        listed = verbs.pairs(changes)
        what = " and ".join(f"add {delta} to {key!r}" for key, delta in listed)
        return self._keep(what, id, lambda id: verbs.add_many(listed, id))

    def set(self, key: Key, value: Union[int, str, bytes], *, id: Optional[str] = None) -> str:
        """Takes the setting of a counter, or bytes to be put."""
        return self._keep(f"set {key!r} to {value!r}", id, lambda id: verbs.set_(key, value, id))

    def reset(self, key: Key, *, id: Optional[str] = None) -> str:
        """Takes a reset of a counter."""
        return self._keep(f"reset {key!r}", id, lambda id: verbs.reset(key, id))

    def delete(self, key: Key, *, id: Optional[str] = None) -> str:
        """Takes a deletion."""
        return self._keep(f"delete {key!r}", id, lambda id: verbs.delete(key, id))

    @property
    def pending(self) -> int:
        """How many operations are still to be delivered."""
        with self._lock:
            return self._pending

    def flush(self, timeout: Optional[float] = None) -> bool:
        """Waits until nothing is to be delivered any more; False if that takes longer than the timeout.

        What cannot be delivered is in `undelivered`.
        """
        with self._idle:
            return self._idle.wait_for(lambda: self._pending == 0, timeout)

    def undelivered(self) -> List[Undelivered]:
        """What could not be delivered, the oldest first. It stays in the outbox until it is forgotten."""
        statement = "SELECT id, what, stuck, expired FROM parcels WHERE stuck IS NOT NULL ORDER BY number"
        with self._lock:
            rows: List[Tuple[str, str, str, int]] = self._disk.execute(statement).fetchall()
        return [Undelivered(id, what, why, bool(expired)) for id, what, why, expired in rows]

    def forget(self, id: str) -> bool:
        """Takes note that this operation could not be delivered. False if it is not in the list."""
        with self._lock:
            gone = self._disk.execute("DELETE FROM parcels WHERE stuck IS NOT NULL AND id = ?", (id,)).rowcount
            self._kept -= gone
        return gone > 0

    def close(self) -> None:
        """Closes it. What is not delivered is delivered by the next."""
        self._stop.set()
        for _ in self._threads:
            self._parcels.put(None)
        for thread in self._threads:
            thread.join()
        with self._lock:
            self._closed = True
            self._disk.close()

    def _keep(self, what: str, id: Optional[str], make: Callable[[str], bytes]) -> str:
        # Before it is on disk, and so before it is sent; and never again.
        id = self._client.mint() if id is None else id
        if millis_of(id) is None:
            raise InvalidRequest(
                f"an outbox takes only UUIDs of version 7: {id} carries no time, and sent late might count twice"
            )
        command = make(id)
        with self._lock:
            if self._closed:
                raise OutboxError("the outbox is closed")
            if self._kept >= self._operations_max:
                raise OutboxFull(f"the outbox holds {self._operations_max} operations that are not delivered")
            try:
                row = self._disk.execute(
                    "INSERT INTO parcels (id, what, command) VALUES (?, ?, ?)", (id, what, command)
                ).lastrowid
            except sqlite3.Error as error:
                raise OutboxBroken(f"the outbox is broken: {error}") from error
            assert row is not None
            self._kept += 1
            self._pending += 1
        self._parcels.put((row, id, command))
        return id

    def _work(self) -> None:
        while True:
            parcel = self._parcels.get()
            if parcel is None or self._stop.is_set():
                return
            self._deliver(parcel)

    def _deliver(self, parcel: _Parcel) -> None:
        number, id, command = parcel
        while not self._stop.is_set():
            try:
                self._client._send(command, id, _TRY)
            except JetonError as error:
                if _is_hopeless(error):
                    self._note(
                        "UPDATE parcels SET stuck = ?, expired = ? WHERE number = ?",
                        (str(error), int(isinstance(error, IdExpired)), number),
                        0,
                    )
                    return
                self._stop.wait(_PAUSE)
            else:
                # Not worth a sync: if it is lost, the operation is sent once more, and counts once.
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
                # It is sent again by the next process, which is safe; and the next operation tells of the disk.
                pass
            self._kept -= gone
            self._pending -= 1
            self._idle.notify_all()


def _is_hopeless(error: JetonError) -> bool:
    """Whether time will not mend it, nor a person who sees to the server."""
    if isinstance(error, Refused):
        return not isinstance(error, (NoAuth, WrongPass, NoPermission, NoTable, IdFuture))
    return isinstance(error, IdExpired)
