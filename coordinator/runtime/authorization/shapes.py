"""The shapes that rows of the table of needs have in common."""

from collections.abc import Callable, Iterable
from itertools import compress
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.acls.names import CLUSTER_NAME, NOT_ASKED, Operation, Resource
from coordinator.core.decision import Steps
from coordinator.core.pace import map_in_steps
from coordinator.runtime.authorization.guard import Asking, Each, Need, Refuse, Seen, Whole, cluster, describe, need
from coordinator.runtime.authorization.refusals import refuse_with_text
from coordinator.runtime.error_response import error_response
from coordinator.runtime.partial_refusal import LAST, Judge
from protocol.errors import ErrorCode

Entry = Any
Response = Any
_O, _R = Operation, Resource
_OPERATIONS: Final = 5  # units that it takes to decide about all operations on one resource


def cluster_check(*operations: Operation, refuse: Refuse = refuse_with_text) -> Whole:
    """Check the request by an operation on the cluster."""
    return Whole(need(_R.CLUSTER, *operations), cluster, refuse=refuse)


def group_check(operation: Operation, refuse: Refuse = error_response) -> Whole:
    """Check the request by an operation on the group that it names. One that names none is refused as invalid."""

    def names(asking: Asking) -> Iterable[str]:
        group_id = asking.request.group_id
        return () if group_id is None else (group_id,)

    return Whole(need(_R.GROUP, operation), names, field="group_id", refuse=refuse)


def transactional_id_check(when: Callable[[Asking], str | None]) -> Whole:
    """Check the request by WRITE on a transactional id, where it has one."""

    def names(asking: Asking) -> Iterable[str]:
        name = when(asking)
        return () if name is None else (name,)

    return Whole(need(_R.TRANSACTIONAL_ID, _O.WRITE), names)


def each_topic(
    array: str,
    answers: str,
    operation: Operation,
    *,
    place: str = LAST,
    is_checked: Callable[[Asking], Callable[[Entry], bool]] | None = None,
    unless: Need | None = None,
    message: str | None = None,
    refuse: Refuse = error_response,
    is_asked_empty: bool = False,
) -> Each:
    """Check each topic of an array. An id that no topic has is left to the handler.

    `unless` is what allows all of them; what is not `is_checked` is left to the handler as well.
    """
    wanted = need(_R.TOPIC, operation)

    def judge(asking: Asking) -> Judge:
        if unless is not None and unless.is_met(asking, CLUSTER_NAME):
            return deny_nothing
        checked = None if is_checked is None else is_checked(asking)

        def deny(entry: Entry) -> ErrorCode | None:
            if checked is not None and not checked(entry):
                return None
            name = asking.topic(entry)
            return None if name is None or wanted.is_met(asking, name) else wanted.error

        return deny

    told = describe(wanted) if unless is None else f"{describe(wanted)}, or {describe(unless)}"
    what = f"{told}, for each topic: {wanted.error.name}"
    return Each(array, answers, judge, place, message, what, refuse=refuse, is_asked_empty=is_asked_empty)


def deny_nothing(entry: Entry) -> None:
    """Deny no entry: the right on the cluster covers everything in it."""


def each_name(array: str, answers: str, wanted: Need, *, place: str) -> Each:
    """Check each name of an array of names."""

    def judge(asking: Asking) -> Judge:
        return lambda name: None if wanted.is_met(asking, name) else wanted.error

    return Each(array, answers, judge, place, what=f"{describe(wanted)}, for each: {wanted.error.name}")


def hide_what_is_denied(array: str, kind: Resource, field: str, unless: Need | None = None) -> Seen:
    """Leave out the entries of a response that the client may not describe."""
    describes = need(kind, _O.DESCRIBE)

    def see(asking: Asking, response: Response) -> Steps[Response]:
        if unless is not None and all(unless.is_met(asking, name) for name in cluster(asking)):
            return response
        entries = getattr(response, array)
        is_seen = yield from map_in_steps(entries, lambda one: describes.is_met(asking, getattr(one, field)))
        return replace(response, **{array: tuple(compress(entries, is_seen))})

    return see


def authorized_operations(array: str, kind: Resource, field: str, name: str) -> Seen:
    """Tell the operations that the client may do, where the response would tell all that there are."""

    def see(asking: Asking, response: Response) -> Steps[Response]:
        def tell(one: Entry) -> Entry:
            if getattr(one, field) == NOT_ASKED or getattr(one, name) is None:
                return one
            return replace(one, **{field: asking.rights.operations(kind, getattr(one, name))})

        told = yield from map_in_steps(getattr(response, array), tell, units=lambda one: _OPERATIONS)
        return replace(response, **{array: tuple(told)})

    return see


def cluster_operations(asking: Asking, response: Response) -> Steps[Response]:
    """Return the same for the cluster: none without DESCRIBE."""
    yield from ()
    if response.cluster_authorized_operations == NOT_ASKED:
        return response
    is_seen = asking.rights.may(_O.DESCRIBE, _R.CLUSTER)
    return replace(response, cluster_authorized_operations=asking.rights.operations(_R.CLUSTER) if is_seen else 0)
