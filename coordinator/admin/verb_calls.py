"""How handlers of the control API call the operator's verbs: a refusal becomes an answer, a number has its bounds."""

from collections.abc import Callable
from time import thread_time
from typing import Any, TypeVar

import trio

from coordinator.admin.operations import Refusal as Refused
from coordinator.control.names import SpecError
from coordinator.runtime.steps import ProcessorTime
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.waits import Waits
from storage.files import StorageError

T = TypeVar("T")


def do(verb: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a verb, and answer its refusal."""
    try:
        return verb(*arguments, **options)
    except Refusal as refusal:
        raise answer(refusal) from None


def refuse_nonsense(check: Callable[..., T], *arguments: Any) -> T:
    """Call what raises SpecError for arguments that could never apply, and answer that."""
    try:
        return check(*arguments)
    except SpecError as error:
        raise Refused(str(error)) from None


def answer(refusal: Refusal) -> Refused:
    """Return the answer to a verb that is refused: 404 for what is not there, 507 for a full disk, else 409 or 400."""
    if refusal.failure is not None:
        return Refused(str(refusal), 507 if refusal.failure.is_full else 500)
    is_missing = str(refusal).startswith("there is no ")
    return Refused(str(refusal), 404 if is_missing else 409 if refusal.is_conflict else 400)


def check_bounds(name: str, value: int, least: int, most: int) -> int:
    """Return a number that is within its bounds. Raises Refused."""
    if not least <= value <= most:
        raise Refused(f"invalid {name} {value}: expected {least} to {most}")
    return value


async def take_steps(steps: Waits[T]) -> T:
    """Do what a verb does in steps, and serve clients when a step has used enough. Returns what it ends with."""
    failure: StorageError | None = None
    meter = ProcessorTime(thread_time)
    meter.begin()
    try:
        while True:
            try:
                wait = do(next, steps) if failure is None else do(steps.throw, failure)
            except StopIteration as stop:
                value: T = stop.value
                return value
            failure = None
            if wait is not None:
                try:
                    await trio.to_thread.run_sync(wait)
                except StorageError as error:
                    failure = error
            elif meter.is_over():
                await trio.lowlevel.checkpoint()
            else:
                continue
            meter.begin()
    finally:
        steps.close()
