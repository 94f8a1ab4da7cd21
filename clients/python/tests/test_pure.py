"""What needs no server: ids, the course of an operation, the protocol."""

from __future__ import annotations

import random
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest

from jeton import Backoff, InvalidRequest, Mint, Policy, Status
from jeton._course import Abandon, Answered, Course, Failed, Send, Wait
from jeton._drive import Settings, parse_address
from jeton._errors import Failure, Weight
from jeton._mint import SystemMint, millis_of
from jeton._resp import ErrorReply, Parser, ProtocolError, Push, command
from jeton._verbs import Nonsense, add, add_many, read_fate, read_held, read_many, read_outcome

NOW = 1_700_000_000_000


def test_ids_grow_while_the_clock_jitters() -> None:
    chance = random.Random(1)
    mint = Mint()
    ids = [mint.next(NOW - chance.randrange(5000), chance.getrandbits(128)) for _ in range(5000)]
    assert ids == sorted(ids) and len(set(ids)) == len(ids)
    assert all(len(id) == 36 and id[14] == "7" and id[19] in "89ab" for id in ids)


def test_an_id_carries_its_time_and_follows_a_clock_that_is_set_back_far() -> None:
    mint = Mint()
    assert millis_of(mint.next(NOW, 5)) == NOW
    assert millis_of(mint.next(NOW - 10_000, 5)) == NOW
    assert millis_of(mint.next(NOW - 10_001, 5)) == NOW - 10_001
    assert millis_of("uuid7:" + mint.next(NOW, 0)) == NOW
    assert millis_of("7f9c24e8-3b12-4fef-91e0-5d7a0c7b6e1f") is None
    assert SystemMint(True).next().startswith("uuid7:")


def run(policy: Policy, addresses: int, first: int, chance: random.Random) -> Dict[str, Any]:
    """A whole course under any course of events."""
    now = 77.0
    course = Course(policy, now, addresses, first)
    sent: List[Tuple[float, int]] = []
    flying: List[Tuple[int, float, str]] = []
    perhaps_done = settled = False
    failed: Optional[Tuple[float, int, bool]] = None
    failures = 0
    for _ in range(100_000):
        step = course.step(now)
        if isinstance(step, Send):
            if failed:
                when, number, busy = failed
                ceiling = policy.backoff.ceiling((number - 1) // addresses)
                assert now - when <= ceiling + 1e-9
                assert busy or number % addresses == 0 or now == when
                failed = None
            sent.append((now, step.address))
            kind = chance.choice(["lost"] * 8 + ["unsent"] * 8 + ["busy"] * 4 + ["loading"] * 2)
            kind = chance.choice([kind] * 9 + ["answered", "refused", "settled"])
            flying.append((step.attempt, now + chance.random() * 0.4, kind))
            assert len(flying) <= (2 if policy.hedge_after is not None else 1)
        elif isinstance(step, Abandon):
            attempt = step.attempt
            kind = next(kind for number, _, kind in flying if number == attempt)
            flying = [flight for flight in flying if flight[0] != attempt]
            perhaps_done |= kind != "unsent"
            course.lost(attempt, now, kind != "unsent", chance.random())
            if not flying:
                failures += 1
                failed = (now, failures, False)
        elif isinstance(step, Wait):
            assert now < step.until <= course.end
            due = min(flying, key=lambda flight: flight[1]) if flying else None
            if due is None or due[1] > step.until:
                now = step.until
                continue
            flying.remove(due)
            attempt, now, kind = due[0], max(now, due[1]), due[2]
            if kind == "answered":
                course.answered(attempt)
            elif kind == "settled":
                settled = True
                course.settled(attempt)
            elif kind == "refused":
                perhaps_done |= bool(flying)
                course.refused(attempt, False)
            elif kind in ("busy", "loading"):
                perhaps_done |= kind == "loading"
                course.busy(attempt, now, kind == "loading", chance.random())
            else:
                perhaps_done |= kind == "lost"
                course.lost(attempt, now, kind == "lost", chance.random())
            if not flying:
                failures += 1
                failed = (now, failures, kind in ("busy", "loading"))
        else:
            return {"sent": sent, "over": now, "end": step, "done": perhaps_done, "settled": settled}
    raise AssertionError("it never ends")


def test_a_course_keeps_its_promises() -> None:
    for seed in range(3000):
        chance = random.Random(seed)
        policy = Policy(
            deadline=chance.uniform(0.001, 3),
            window=chance.uniform(0.001, 4),
            attempt_timeout=chance.uniform(0.001, 0.5),
            hedge_after=chance.choice([None, chance.uniform(0, 0.3)]),
            backoff=Backoff(chance.uniform(0, 0.05), chance.uniform(0, 0.5)),
        )
        addresses, first = chance.randrange(1, 4), chance.randrange(4)
        seen = run(policy, addresses, first, chance)
        latest = 77 + min(policy.deadline, policy.window / 2)
        assert seen["over"] <= latest
        for number, (when, address) in enumerate(seen["sent"]):
            assert when < latest and address == (first + number) % addresses
        end = seen["end"]
        if isinstance(end, Failed):
            assert end.perhaps_done == (seen["done"] and not seen["settled"])
        else:
            assert isinstance(end, Answered)


def test_waits_double_up_to_a_cap() -> None:
    backoff = Backoff(base=0.01, cap=0.05)
    assert [backoff.ceiling(round) for round in (0, 1, 2, 3, 1000)] == [0.01, 0.02, 0.04, 0.05, 0.05]
    assert backoff.wait(1, 0.0) == 0 and backoff.wait(1, 0.5) == 0.01


def test_what_is_said_is_weighed() -> None:
    for text, weight in [
        ("BUSY too many", Weight.LATER),
        ("MISCONF no room", Weight.LATER),
        ("LOADING closed", Weight.LATER_PERHAPS_DONE),
        ("IDMISMATCH used", Weight.SETTLED),
        ("IDEXPIRED old", Weight.NEVER),
        ("ERR overflow", Weight.NEVER),
        ("ERR storage: no", Weight.NEVER_PERHAPS_DONE),
        ("STORAGE storage: no", Weight.NEVER_PERHAPS_DONE),
        ("QUOTA no more", Weight.NEVER),
    ]:
        assert Failure.said(text).weight() is weight, text


def test_replies_are_read_however_they_are_cut() -> None:
    data = (
        b"+OK\r\n-ERR no\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n_\r\n*2\r\n:1\r\n*1\r\n+x\r\n%1\r\n+k\r\n:1\r\n"
        b">1\r\n+push\r\n|1\r\n+ttl\r\n:9\r\n:7\r\n#t\r\n,1.5\r\n=8\r\ntxt:a\r\nb\r\n"
    )
    for size in range(1, len(data) + 1):
        parser, replies = Parser(), []
        for at in range(0, len(data), size):
            parser.feed(data[at : at + size])
            replies += parser.replies()
        assert isinstance(replies[1], ErrorReply) and replies[1].message == "ERR no"
        assert isinstance(replies[8], Push)
        del replies[8], replies[1]
        assert replies == ["OK", -7, b"a\r\nb", None, None, [1, ["x"]], ["k", 1], 7, True, 1.5, b"a\r\nb"]


@pytest.mark.parametrize(
    "data", [b"what\r\n", b":x\r\n", b"$1\r\nab\r\n", b"$-2\r\n", b"*9999999\r\n", b"+" + b"x" * 70000, b"*1\r\n" * 50]
)
def test_what_is_no_reply_is_refused(data: bytes) -> None:
    parser = Parser()
    parser.feed(data)
    with pytest.raises(ProtocolError):
        parser.replies()


def test_commands_and_what_cannot_be_one() -> None:
    assert command([b"A", b""]) == b"*2\r\n$1\r\nA\r\n$0\r\n\r\n"
    said = add("k", -1, "7", 0, 9).split(b"\r\n")[2::2]
    assert said == [b"JADD", b"k", b"-1", b"ID", b"7", b"MIN", b"0", b"MAX", b"9"]
    bads: List[Callable[[], bytes]] = [
        lambda: add("", 1, "7", None, None),
        lambda: add("k", 1 << 63, "7", None, None),
        lambda: add("k" * 2000, 1, "7", None, None),
        lambda: add("k", 1, "", None, None),
        lambda: add_many({}, "7"),
        lambda: add_many([("k", 1)] * 257, "7"),
    ]
    for bad in bads:
        with pytest.raises(InvalidRequest):
            bad()


def test_outcomes_are_read() -> None:
    outcome = read_outcome([5, "refused-replayed", "relaxed"], "7")
    assert (outcome.value, outcome.status, outcome.replayed, outcome.relaxed) == (5, Status.REFUSED, True, True)
    assert read_many([[1, None], "applied"], "7").values == [1, None]
    assert read_fate(["applied", [3], 9]).values == [3]
    assert read_fate([["applied", [3], 9], ["refused", [4], 9]]).several is not None
    assert read_fate(["forgotten"]).word == "forgotten"
    for nonsense in [None, 5, [], [5], [5, "perhaps"], ["x", "applied"], [5, "applied", "tense"], [True, "applied"]]:
        for read in (read_outcome, read_many):
            with pytest.raises(Nonsense):
                read(nonsense, "7")
        with pytest.raises(Nonsense):
            read_fate(nonsense)
    with pytest.raises(Nonsense):
        read_held("x")


def test_addresses_and_options() -> None:
    assert parse_address("localhost:1") == ("localhost", 1)
    assert parse_address("[::1]:6380") == ("::1", 6380)
    for bad in ["", "x", "x:", ":1", "x:y", "x:99999"]:
        with pytest.raises(InvalidRequest):
            parse_address(bad)
    settings = Settings.of("a:1", "secret", 1, 1, None, None, 1, 1, None)
    assert "secret" not in repr(settings)
    with pytest.raises(InvalidRequest):
        Settings.of("a:1", None, 1, 1, None, Backoff(0, 0), 1, 1, None)
    with pytest.raises(InvalidRequest):
        Settings.of([], None, 1, 1, None, None, 1, 1, None)
