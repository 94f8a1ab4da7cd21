"""What needs no server: ids, the retry of an operation, the protocol."""

from __future__ import annotations

import random
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest

from jeton import Backoff, InvalidRequest, IdGenerator, Policy, Status
from jeton._retry import Abandon, Answered, RetryState, Failed, Send, Wait
from jeton._execute import Settings, parse_address
from jeton._errors import AttemptError, Retryability
from jeton._id_generator import SystemIdGenerator, millis_of
from jeton._resp import ErrorReply, Parser, ProtocolError, Push, command
from jeton._commands import UnexpectedReply, add, add_many, parse_operation_status, parse_stored_value, parse_many, parse_outcome

NOW = 1_700_000_000_000


def test_ids_grow_while_the_clock_jitters() -> None:
    rng = random.Random(1)
    generator = IdGenerator()
    ids = [generator.next(NOW - rng.randrange(5000), rng.getrandbits(128)) for _ in range(5000)]
    assert ids == sorted(ids) and len(set(ids)) == len(ids)
    assert all(len(id) == 36 and id[14] == "7" and id[19] in "89ab" for id in ids)


def test_an_id_carries_its_time_and_follows_a_clock_that_is_set_back_far() -> None:
    generator = IdGenerator()
    assert millis_of(generator.next(NOW, 5)) == NOW
    assert millis_of(generator.next(NOW - 10_000, 5)) == NOW
    assert millis_of(generator.next(NOW - 10_001, 5)) == NOW - 10_001
    assert millis_of("uuid7:" + generator.next(NOW, 0)) == NOW
    assert millis_of("7f9c24e8-3b12-4fef-91e0-5d7a0c7b6e1f") is None
    assert SystemIdGenerator(True).next().startswith("uuid7:")


def run(policy: Policy, addresses: int, first: int, rng: random.Random) -> Dict[str, Any]:
    """A whole retry under any retry of events."""
    now = 77.0
    retry = RetryState(policy, now, addresses, first)
    sent: List[Tuple[float, int]] = []
    in_flight: List[Tuple[int, float, str]] = []
    may_have_applied = settled = False
    failed: Optional[Tuple[float, int, bool]] = None
    failures = 0
    for _ in range(100_000):
        step = retry.step(now)
        if isinstance(step, Send):
            if failed:
                when, number, busy = failed
                ceiling = policy.backoff.ceiling((number - 1) // addresses)
                assert now - when <= ceiling + 1e-9
                assert busy or number % addresses == 0 or now == when
                failed = None
            sent.append((now, step.address))
            kind = rng.choice(["lost"] * 8 + ["unsent"] * 8 + ["busy"] * 4 + ["loading"] * 2)
            kind = rng.choice([kind] * 9 + ["answered", "refused", "settled"])
            in_flight.append((step.attempt, now + rng.random() * 0.4, kind))
            assert len(in_flight) <= (2 if policy.hedge_after is not None else 1)
        elif isinstance(step, Abandon):
            attempt = step.attempt
            kind = next(kind for number, _, kind in in_flight if number == attempt)
            in_flight = [flight for flight in in_flight if flight[0] != attempt]
            may_have_applied |= kind != "unsent"
            retry.lost(attempt, now, kind != "unsent", rng.random())
            if not in_flight:
                failures += 1
                failed = (now, failures, False)
        elif isinstance(step, Wait):
            assert now < step.until <= retry.end
            due = min(in_flight, key=lambda flight: flight[1]) if in_flight else None
            if due is None or due[1] > step.until:
                now = step.until
                continue
            in_flight.remove(due)
            attempt, now, kind = due[0], max(now, due[1]), due[2]
            if kind == "answered":
                retry.answered(attempt)
            elif kind == "settled":
                settled = True
                retry.never_applied(attempt)
            elif kind == "refused":
                may_have_applied |= bool(in_flight)
                retry.refused(attempt, False)
            elif kind in ("busy", "loading"):
                may_have_applied |= kind == "loading"
                retry.busy(attempt, now, kind == "loading", rng.random())
            else:
                may_have_applied |= kind == "lost"
                retry.lost(attempt, now, kind == "lost", rng.random())
            if not in_flight:
                failures += 1
                failed = (now, failures, kind in ("busy", "loading"))
        else:
            return {"sent": sent, "over": now, "end": step, "done": may_have_applied, "settled": settled}
    raise AssertionError("it never ends")


def test_a_course_keeps_its_promises() -> None:
    for seed in range(3000):
        rng = random.Random(seed)
        policy = Policy(
            deadline=rng.uniform(0.001, 3),
            window=rng.uniform(0.001, 4),
            attempt_timeout=rng.uniform(0.001, 0.5),
            hedge_after=rng.choice([None, rng.uniform(0, 0.3)]),
            backoff=Backoff(rng.uniform(0, 0.05), rng.uniform(0, 0.5)),
        )
        addresses, first = rng.randrange(1, 4), rng.randrange(4)
        seen = run(policy, addresses, first, rng)
        latest = 77 + min(policy.deadline, policy.window / 2)
        assert seen["over"] <= latest
        for number, (when, address) in enumerate(seen["sent"]):
            assert when < latest and address == (first + number) % addresses
        end = seen["end"]
        if isinstance(end, Failed):
            assert end.may_have_applied == (seen["done"] and not seen["settled"])
        else:
            assert isinstance(end, Answered)


def test_waits_double_up_to_a_cap() -> None:
    backoff = Backoff(base=0.01, cap=0.05)
    assert [backoff.ceiling(round) for round in (0, 1, 2, 3, 1000)] == [0.01, 0.02, 0.04, 0.05, 0.05]
    assert backoff.wait(1, 0.0) == 0 and backoff.wait(1, 0.5) == 0.01


def test_what_is_said_is_weighed() -> None:
    for text, retryability in [
        ("BUSY too many", Retryability.LATER),
        ("MISCONF no room", Retryability.LATER),
        ("LOADING closed", Retryability.LATER_MAY_HAVE_APPLIED),
        ("IDMISMATCH used", Retryability.NEVER_APPLIED),
        ("IDEXPIRED old", Retryability.NEVER),
        ("ERR overflow", Retryability.NEVER),
        ("ERR storage: no", Retryability.NEVER_MAY_HAVE_APPLIED),
        ("STORAGE storage: no", Retryability.NEVER_MAY_HAVE_APPLIED),
        ("QUOTA no more", Retryability.NEVER),
    ]:
        assert AttemptError.from_server(text).retryability() is retryability, text


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
    outcome = parse_outcome([5, "refused-replayed", "relaxed"], "7")
    assert (outcome.value, outcome.status, outcome.replayed, outcome.relaxed) == (5, Status.REFUSED, True, True)
    assert parse_many([[1, None], "applied"], "7").values == [1, None]
    assert parse_operation_status(["applied", [3], 9]).values == [3]
    assert parse_operation_status([["applied", [3], 9], ["refused", [4], 9]]).several is not None
    assert parse_operation_status(["forgotten"]).word == "forgotten"
    for nonsense in [None, 5, [], [5], [5, "perhaps"], ["x", "applied"], [5, "applied", "tense"], [True, "applied"]]:
        for read in (parse_outcome, parse_many):
            with pytest.raises(UnexpectedReply):
                read(nonsense, "7")
        with pytest.raises(UnexpectedReply):
            parse_operation_status(nonsense)
    with pytest.raises(UnexpectedReply):
        parse_stored_value("x")


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
