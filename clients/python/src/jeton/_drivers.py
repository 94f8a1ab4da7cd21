"""Runs the retry state machine of a request: over sockets in the caller's thread, or with asyncio."""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from typing import Awaitable, Callable, Dict, List, Protocol, Tuple, Type, TypeVar, Union

from ._execute import AttemptError, AttemptFailed, Execution
from ._retry import Abandon, RetryOutcome, Send, Wait

T = TypeVar("T")

# For few sockets and short waits: a selector that needs no file descriptor of its own, where there is one.
Selector: Type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


class SocketAttempt(Protocol[T]):
    """An attempt that is in flight on a socket."""

    sock: socket.socket
    #: Whether the request may have reached the server.
    sent: bool
    #: When to give up connecting; infinite once it is connected.
    connect_by: float

    def events(self) -> int:
        """The awaited socket events."""

    def advance(self) -> List[Union[T, AttemptError]]:
        """Continues without blocking. Returns the response once it is there; raises `AttemptFailed`."""

    def close(self) -> None:
        """Ends the attempt."""


def run(execution: Execution[T], start: Callable[[Send], SocketAttempt[T]]) -> RetryOutcome:
    """Runs a request to its end in the caller's thread. `start` starts an attempt, or raises `AttemptFailed`."""
    in_flight: Dict[int, SocketAttempt[T]] = {}
    try:
        while True:
            action = execution.retry.step(execution.clock.now())
            if isinstance(action, Send):
                try:
                    in_flight[action.attempt] = start(action)
                except AttemptFailed as failed:
                    execution.report(action.attempt, failed.error)
            elif isinstance(action, Abandon):
                attempt = in_flight.pop(action.attempt)
                attempt.close()
                execution.abandoned(action.attempt, attempt.sent)
            elif isinstance(action, Wait):
                _wait(execution, in_flight, action.until)
            else:
                return action
    finally:
        for attempt in in_flight.values():
            attempt.close()


def _wait(execution: Execution[T], in_flight: Dict[int, SocketAttempt[T]], until: float) -> None:
    clock = execution.clock
    until = min([until] + [attempt.connect_by for attempt in in_flight.values()])
    timeout = clock.poll(until, not in_flight)
    if not in_flight:
        # Not all systems can wait for no sockets.
        time.sleep(timeout)
        return
    with Selector() as selector:
        for number, attempt in in_flight.items():
            selector.register(attempt.sock, attempt.events(), number)
        ready = {key.data for key, _ in selector.select(timeout)}
    for number, attempt in list(in_flight.items()):
        try:
            if number in ready:
                responses = attempt.advance()
            elif clock.now() >= attempt.connect_by:
                responses = [AttemptError("no connection in time", may_have_applied=False)]
            else:
                continue
        except AttemptFailed as failed:
            responses = [failed.error]
        for response in responses:
            in_flight.pop(number).close()
            execution.report(number, response)


class TaskAttempt:
    """An attempt that is in flight in a task."""

    #: Whether the request may have reached the server.
    sent = False

    def timed_out(self) -> None:
        """Called when the attempt timed out, after its task was cancelled."""


async def run_async(
    execution: Execution[T],
    start: Callable[[Send], Tuple[TaskAttempt, Awaitable[Union[T, AttemptError]]]],
) -> RetryOutcome:
    """Runs a request to its end with asyncio. `start` starts an attempt, and returns it and its response."""
    in_flight: Dict[asyncio.Future[Union[T, AttemptError]], Tuple[int, TaskAttempt]] = {}

    async def response(awaitable: Awaitable[Union[T, AttemptError]]) -> Union[T, AttemptError]:
        try:
            return await awaitable
        except AttemptFailed as failed:
            return failed.error

    try:
        while True:
            action = execution.retry.step(execution.clock.now())
            if isinstance(action, Send):
                attempt, awaitable = start(action)
                in_flight[asyncio.ensure_future(response(awaitable))] = (action.attempt, attempt)
            elif isinstance(action, Abandon):
                task = next(task for task, (number, _) in in_flight.items() if number == action.attempt)
                _, attempt = in_flight.pop(task)
                task.cancel()
                attempt.timed_out()
                execution.abandoned(action.attempt, attempt.sent)
            elif isinstance(action, Wait):
                timeout = execution.clock.poll(action.until, not in_flight)
                if not in_flight:
                    await asyncio.sleep(timeout)
                    continue
                done, _ = await asyncio.wait(in_flight, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    number, attempt = in_flight.pop(task)
                    lost = AttemptError("the attempt was cancelled", may_have_applied=attempt.sent)
                    execution.report(number, lost if task.cancelled() else task.result())
            else:
                return action
    finally:
        for task in in_flight:
            task.cancel()
