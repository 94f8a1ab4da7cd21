"""The parts without I/O: ids, the retry state machine, commands and replies, request numbers and HTTP responses."""

from __future__ import annotations

import math
import random
from typing import Callable, Dict, List, Optional, Tuple

import pytest

from jeton import Backoff, IdGenerator, InvalidRequest, Policy, Status
from jeton._calls import Settings, parse_address
from jeton._commands import (
    UnexpectedReply,
    add,
    add_many,
    parse_many,
    parse_operation_status,
    parse_outcome,
    parse_stored_value,
    server_error,
)
from jeton._execute import AttemptError
from jeton._id_generator import SystemIdGenerator, millis_of
from jeton._resp import ErrorReply, Parser, ProtocolError, Push, command
from jeton._retry import Abandon, AttemptResult, Failed, RetryState, Send, Wait
from jeton._transactions.wire import AckWatermark, is_complete, parse, parse_outcome as parse_transaction

NOW = 1_700_000_000_000


def test_ids_increase_while_the_clock_jitters() -> None:
    rng = random.Random(1)
    generator = IdGenerator()
    ids = [generator.next(NOW - rng.randrange(5000), rng.getrandbits(128)) for _ in range(5000)]
    assert ids == sorted(ids) and len(set(ids)) == len(ids)
    assert all(len(id) == 36 and id[14] == "7" and id[19] in "89ab" for id in ids)


def test_an_id_contains_its_time_and_follows_the_clock() -> None:
    generator = IdGenerator()
    assert millis_of(generator.next(NOW, 5)) == NOW
    assert millis_of(generator.next(NOW - 10_000, 5)) == NOW
    assert millis_of(generator.next(NOW - 10_001, 5)) == NOW - 10_001
    assert millis_of("uuid7:" + generator.next(NOW, 0)) == NOW
    assert millis_of("7f9c24e8-3b12-4fef-91e0-5d7a0c7b6e1f") is None
    assert SystemIdGenerator(True).next().startswith("uuid7:")


class Run:
    """A request under random events, with its oracle."""

    def __init__(self, policy: Policy, servers: int, first: int, may_have_applied: bool, rng: random.Random) -> None:
        self.policy, self.servers, self.first, self.rng = policy, servers, first, rng
        self.now = 77.0
        self.retry = RetryState(policy, self.now, servers, first, may_have_applied)
        self.may_have_applied = may_have_applied
        self.sent = 0
        #: Time of the result, attempt, server, result, whether it may have been applied.
        self.in_flight: List[Tuple[float, int, int, AttemptResult, bool]] = []
        #: Of each lane: failures, and the time of the last one and whether the server was busy.
        self.failures: Dict[int, Tuple[int, Optional[Tuple[float, bool]]]] = {}

    def lane(self, server: int) -> int:
        return 0 if self.policy.widen_after is None else server

    def send(self, action: Send) -> None:
        lane, servers_of_lane = self.lane(action.server), self.servers
        if self.policy.widen_after is None:
            assert action.server == (self.first + self.sent) % self.servers
            assert len(self.in_flight) <= (self.policy.hedge_after is not None)
        else:
            servers_of_lane = 1
            assert all(server != action.server for _, _, server, _, _ in self.in_flight)
        assert self.sent or action.server == self.first % self.servers
        assert action.attempt == self.sent and self.now < self.retry.end
        failures, last = self.failures.get(lane, (0, None))
        if last is not None:
            failed_at, is_busy = last
            ceiling = self.policy.backoff.ceiling((failures - 1) // servers_of_lane)
            assert self.now - failed_at <= ceiling + 1e-9, "it waited longer than the backoff allows"
            assert is_busy or failures % servers_of_lane == 0 or self.now == failed_at
            self.failures[lane] = (failures, None)
        results = [AttemptResult.LOST] * 20 + [AttemptResult.BUSY] * 8 + list(AttemptResult)
        at = self.now + self.rng.random() * 0.4
        event = (at, self.sent, action.server, self.rng.choice(results), self.rng.random() < 0.5)
        self.in_flight.append(event)
        self.sent += 1

    def report(self, event: Tuple[float, int, int, AttemptResult, bool], result: AttemptResult) -> None:
        self.in_flight.remove(event)
        _, attempt, server, _, may_have_applied = event
        if result in (AttemptResult.LOST, AttemptResult.BUSY):
            self.may_have_applied |= may_have_applied
        elif result is AttemptResult.REFUSED:
            self.may_have_applied |= may_have_applied or bool(self.in_flight)
        elif result is AttemptResult.NEVER_APPLIED:
            self.may_have_applied = False
        self.retry.report(self.now, attempt, result, may_have_applied, self.rng.random())
        # A second report of one attempt changes nothing.
        self.retry.report(self.now, attempt, AttemptResult.ANSWERED, True, 0.0)
        lane = self.lane(server)
        if all(self.lane(other) != lane for _, _, other, _, _ in self.in_flight):
            failures = self.failures.get(lane, (0, None))[0] + 1
            self.failures[lane] = (failures, (self.now, result is AttemptResult.BUSY))

    def run(self) -> None:
        is_endless = self.retry.end == math.inf
        for _ in range(500 if is_endless else 100_000):
            action = self.retry.step(self.now)
            if isinstance(action, Send):
                self.send(action)
            elif isinstance(action, Abandon):
                event = next(event for event in self.in_flight if event[1] == action.attempt)
                self.report(event, AttemptResult.LOST)
            elif isinstance(action, Wait):
                assert self.now < action.until <= self.retry.end
                first = min(self.in_flight, default=None)
                if first is None or first[0] > action.until:
                    self.now = action.until
                else:
                    self.now = max(self.now, first[0])
                    self.report(first, first[3])
            else:
                assert self.retry.step(self.now + 1) == action, "the outcome changed"
                assert self.now <= self.retry.end
                if isinstance(action, Failed):
                    assert action.may_have_applied == self.may_have_applied
                return
        assert is_endless, "it does not end"


def test_the_retry_invariants_hold_under_any_events() -> None:
    for seed in range(4000):
        rng = random.Random(seed)
        widen_after = rng.choice([None, rng.uniform(0, 0.3)])
        policy = Policy(
            deadline=rng.choice([None, rng.uniform(0.001, 3)]),
            window=rng.choice([None, rng.uniform(0.001, 4)]),
            attempt_timeout=rng.uniform(0.001, 0.5),
            hedge_after=rng.choice([None, rng.uniform(0, 0.3)]) if widen_after is None else None,
            widen_after=widen_after,
            backoff=Backoff(rng.uniform(0.001, 0.05), rng.uniform(0.001, 0.5)),
        )
        Run(policy, rng.randrange(1, 6), rng.randrange(6), rng.random() < 0.5, rng).run()


def test_half_the_window_limits_the_deadline() -> None:
    assert RetryState(Policy(deadline=10.0, window=1.0), 5.0, 1, 0).end == 5.5


def test_waits_double_up_to_a_cap() -> None:
    backoff = Backoff(base=0.01, cap=0.05)
    assert [backoff.ceiling(round) for round in (0, 1, 2, 3, 1000)] == [0.01, 0.02, 0.04, 0.05, 0.05]
    assert backoff.wait(1, 0.0) == 0 and backoff.wait(1, 0.5) == 0.01


def test_error_codes_decide_about_retries() -> None:
    for text, result, may_have_applied in [
        ("BUSY too many", AttemptResult.BUSY, False),
        ("MISCONF no room", AttemptResult.BUSY, False),
        ("LOADING closed", AttemptResult.BUSY, True),
        ("IDBUSY", AttemptResult.BUSY, True),
        ("IDEXPIRED old", AttemptResult.REFUSED, False),
        ("ERR overflow", AttemptResult.REFUSED, False),
        ("ERR storage: no", AttemptResult.REFUSED, True),
        ("STORAGE storage: no", AttemptResult.REFUSED, True),
        ("QUOTA no more", AttemptResult.REFUSED, False),
    ]:
        error = server_error(text)
        assert (error.result, error.may_have_applied) == (result, may_have_applied), text
    assert server_error("IDMISMATCH used").result is AttemptResult.NEVER_APPLIED


def test_replies_are_parsed_in_pieces_of_any_size() -> None:
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
def test_malformed_replies_are_rejected(data: bytes) -> None:
    parser = Parser()
    parser.feed(data)
    with pytest.raises(ProtocolError):
        parser.replies()


def test_commands_beyond_the_limits_are_rejected() -> None:
    assert command([b"A", b""]) == b"*2\r\n$1\r\nA\r\n$0\r\n\r\n"
    words = add("k", -1, "7", 0, 9).split(b"\r\n")[2::2]
    assert words == [b"JADD", b"k", b"-1", b"ID", b"7", b"MIN", b"0", b"MAX", b"9"]
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


def test_every_outcome_is_parsed() -> None:
    outcome = parse_outcome([5, "refused-replayed", "relaxed"], "7")
    assert (outcome.value, outcome.status, outcome.replayed, outcome.relaxed) == (5, Status.REFUSED, True, True)
    assert parse_many([[1, None], "applied"], "7").values == [1, None]
    assert parse_operation_status(["applied", [3], 9]).values == [3]
    assert parse_operation_status(["forgotten"]).status == "forgotten"
    for unexpected in [None, 5, [], [5], [5, "perhaps"], ["x", "applied"], [5, "applied", "tense"], [True, "applied"]]:
        for parse_reply in (parse_outcome, parse_many):
            with pytest.raises(UnexpectedReply):
                parse_reply(unexpected, "7")
        with pytest.raises(UnexpectedReply):
            parse_operation_status(unexpected)
    with pytest.raises(UnexpectedReply):
        parse_stored_value("x")


def test_invalid_addresses_and_options_are_rejected() -> None:
    assert parse_address("localhost:1") == ("localhost", 1)
    assert parse_address("[::1]:6380") == ("::1", 6380)
    for bad in ["", "x", "x:", ":1", "x:y", "x:99999"]:
        with pytest.raises(InvalidRequest):
            parse_address(bad)
    address = parse_address("a:1")
    assert "secret" not in repr(Settings([address], Policy(), 1, token="secret"))
    with pytest.raises(InvalidRequest):
        Settings([address], Policy(backoff=Backoff(0, 0)), 1)
    with pytest.raises(InvalidRequest):
        Settings([address], Policy(deadline=0.0), 1)
    with pytest.raises(InvalidRequest):
        Settings([], Policy(), 1)


def test_numbers_above_a_gap_are_not_acknowledged() -> None:
    acks = AckWatermark()
    assert [acks.next(), acks.next()] == [(0, None), (1, None)]
    acks.answered(1)
    assert acks.next() == (2, None)
    acks.answered(0)
    assert acks.next() == (3, 1)


def test_truncated_and_unexpected_http_is_rejected() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert parse(chunked) == (200, b"{}") and not is_complete(chunked)
    for data in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", b"SSH-2.0\r\n"):
        with pytest.raises(Exception):
            parse(data)
    for body in (b"", b"[]", b'{"outcome": "perhaps"}', b"<html>"):
        error = parse_transaction("x", 200, body)
        assert isinstance(error, AttemptError) and error.result is AttemptResult.BUSY and error.may_have_applied
