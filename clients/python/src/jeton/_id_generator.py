"""Generates ids: UUIDs of version 7 that increase. `IdGenerator` is pure."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Optional, Tuple

_TAIL_MASK = (1 << 74) - 1

# Largest step back of the clock, in milliseconds, for which ids keep the later time. After a larger step ids follow the
# clock and lose their order: servers would reject ids dated too far in the future.
_STEP_BACK_MAX = 10_000

_UUID7 = re.compile(
    r"(?:uuid7:)?([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE
)


class IdGenerator:
    """Generates UUIDs of version 7. Within a millisecond an id is the last one plus a random step."""

    def __init__(self) -> None:
        self._last: Optional[Tuple[int, int]] = None

    def next(self, millis: int, random_bits: int) -> str:
        """The next id, from the time in milliseconds since 1970 and 128 random bits."""
        # The highest bit is left free for the steps.
        fresh = random_bits & (_TAIL_MASK >> 1)
        if self._last is None or millis > self._last[0] or self._last[0] - millis > _STEP_BACK_MAX:
            self._last = (millis, fresh)
        else:
            last, tail = self._last
            tail += 1 + (random_bits & 0xFFFFFFFF)
            self._last = (last + 1, fresh) if tail > _TAIL_MASK else (last, tail)
        return _uuid7(*self._last)


def _uuid7(millis: int, tail: int) -> str:
    bits = (millis & 0xFFFFFFFFFFFF) << 80 | 7 << 76 | (tail >> 62) << 64 | 0b10 << 62 | tail & ((1 << 62) - 1)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def millis_of(id: str) -> Optional[int]:
    """The time of a UUID of version 7, in milliseconds since 1970. None for other formats."""
    found = _UUID7.fullmatch(id)
    return int(found.group(1) + found.group(2), 16) if found else None


class SystemIdGenerator:
    """Generates ids from the system clock and random numbers, in any thread and in children of a fork."""

    def __init__(self, tagged: bool) -> None:
        self._tag = "uuid7:" if tagged else ""
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._id_generator = IdGenerator()

    def next(self) -> str:
        if self._pid != os.getpid():
            # The parent continues from the same id: the child must start from a new one.
            self._renew()
        random_bits = int.from_bytes(os.urandom(16), "big")
        with self._lock:
            return self._tag + self._id_generator.next(time.time_ns() // 1_000_000, random_bits)
