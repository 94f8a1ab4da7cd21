"""Options and calls of the blocking client and of the asyncio client."""

# `_execute` returns what the type parameters of its subclass say.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Generic, List, Optional, Sequence, Tuple, TypeVar, Union

from . import _commands as commands
from ._commands import Changes, Key
from ._errors import InvalidRequest
from ._execute import AttemptError, AttemptFailed, Clock, Execution
from ._id_generator import SystemIdGenerator
from ._resp import ErrorReply, command
from ._retry import AttemptResult, Backoff, Policy, RetryState

Addresses = Union[str, Sequence[str]]
OutcomeT = TypeVar("OutcomeT")
ManyT = TypeVar("ManyT")
ValueT = TypeVar("ValueT")
StatusT = TypeVar("StatusT")


def parse_address(address: str) -> Tuple[str, int]:
    """`host:port`, or `[host]:port` with colons in the host."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise InvalidRequest(f"an address is written host:port, not {address!r}")
    return host, int(port)


@dataclass(frozen=True)
class Settings:
    """Options of a client. They may be logged; the token must not be."""

    addresses: List[Tuple[str, int]]
    policy: Policy
    connections: int
    tls: Optional[ssl.SSLContext] = None
    token: Optional[str] = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.addresses) <= 64:
            raise InvalidRequest("there must be 1 to 64 addresses")
        if not 1 <= self.connections <= 1024:
            raise InvalidRequest("connections must be between 1 and 1024")
        self.policy.check()

    def handshake(self) -> bytes:
        """The first command on a connection."""
        words = [b"HELLO", b"3"]
        if self.token is not None:
            words += [b"AUTH", b"default", self.token.encode()]
        return command(words)


def check_handshake(reply: Any) -> None:
    """Raises `AttemptFailed` if the server rejected the handshake."""
    if isinstance(reply, ErrorReply):
        error = commands.server_error(reply.message)
        # A rejected token stays rejected; other errors are temporary.
        is_permanent = error.code in ("NOAUTH", "WRONGPASS", "NOPERM")
        result, code = (AttemptResult.REFUSED, error.code) if is_permanent else (AttemptResult.LOST, "")
        raise AttemptFailed(AttemptError(error.text, code, result, may_have_applied=False))


class BaseClient(Generic[OutcomeT, ManyT, ValueT, StatusT]):
    """The calls of a client. The type parameters are the results of its calls."""

    _CONNECTIONS: int

    def __init__(
        self,
        addresses: Addresses,
        *,
        token: Optional[str] = None,
        deadline: float = 10.0,
        attempt_timeout: float = 2.0,
        hedge_after: Optional[float] = None,
        backoff: Optional[Backoff] = None,
        connections: Optional[int] = None,
        window: float = 24 * 3600.0,
        tagged_ids: bool = False,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._settings = Settings(
            [parse_address(one) for one in ([addresses] if isinstance(addresses, str) else addresses)],
            Policy(deadline, window, attempt_timeout, hedge_after, None, backoff or Backoff()),
            self._CONNECTIONS if connections is None else connections,
            tls,
            token,
        )
        self._id_generator = SystemIdGenerator(tagged_ids)
        #: Index of the address that responded last; the next operation starts there.
        self._preferred = 0
        self._clock = Clock()
        self._setup()

    def _setup(self) -> None:
        """Creates the connections of the subclass."""

    def new_id(self) -> str:
        """Generates an id. Use it to know the id of an operation before the operation is sent."""
        return self._id_generator.next()

    def add(
        self,
        key: Key,
        delta: int = 1,
        *,
        id: Optional[str] = None,
        min: Optional[int] = None,
        max: Optional[int] = None,
        deadline: Optional[float] = None,
    ) -> OutcomeT:
        """Adds to a counter: `row` of the default table, or `table/row`.

        The server refuses it if the counter would leave the bounds `min` and `max`.
        """
        return self._write(lambda id: commands.add(key, delta, id, min, max), commands.parse_outcome, id, deadline)

    def add_many(
        self, changes: Changes, *, id: Optional[str] = None, deadline: Optional[float] = None
    ) -> ManyT:
        """Adds to several counters with the same hash tag, such as `{user7}spent` and `{user7}left`, all or none."""
        return self._write(lambda id: commands.add_many(changes, id), commands.parse_many, id, deadline)

    def set(
        self,
        key: Key,
        value: Union[int, str, bytes],
        *,
        id: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> OutcomeT:
        """Sets a counter, or stores bytes."""
        return self._write(lambda id: commands.set_(key, value, id), commands.parse_outcome, id, deadline)

    def reset(self, key: Key, *, id: Optional[str] = None, deadline: Optional[float] = None) -> OutcomeT:
        """Sets a counter to zero."""
        return self._write(lambda id: commands.reset(key, id), commands.parse_outcome, id, deadline)

    def delete(self, key: Key, *, id: Optional[str] = None, deadline: Optional[float] = None) -> OutcomeT:
        """Deletes a counter, or bytes."""
        return self._write(lambda id: commands.delete(key, id), commands.parse_outcome, id, deadline)

    def get(self, key: Key, *, deadline: Optional[float] = None) -> ValueT:
        """Reads the value of a key: a counter as `int`, bytes as `bytes`, or `None`."""
        return self._execute(commands.get(key), None, commands.parse_stored_value, deadline)

    def operation(
        self, key: Key, id: str, *, deadline: Optional[float] = None
    ) -> StatusT:
        """Reads the status of an operation by its key and its id.

        An id counts once for each key, or for all keys of a table with the same hash tag.
        """
        return self._execute(commands.operation(key, id), None, commands.parse_operation_status, deadline)

    def _write(
        self,
        encode: Callable[[str], bytes],
        parse: Callable[[Any, str], Any],
        id: Optional[str],
        deadline: Optional[float],
    ) -> Any:
        # The id exists before the first attempt, and does not change.
        chosen = self.new_id() if id is None else id
        return self._execute(encode(chosen), chosen, lambda reply: parse(reply, chosen), deadline)

    def _execute(
        self, command: bytes, id: Optional[str], parse: Callable[[Any], Any], deadline: Optional[float]
    ) -> Any:
        """Sends a command until it gets a reply or its retries end. `id` is the id of a write."""
        raise NotImplementedError

    def _execution(self, id: Optional[str], deadline: Optional[float]) -> Execution[Any]:
        policy = self._settings.policy
        if deadline is not None:
            policy = replace(policy, deadline=deadline)
        retry = RetryState(policy, self._clock.now(), len(self._settings.addresses), self._preferred)
        return Execution(id, retry, self._clock)
