"""The error codes in a response, however deep they lie."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct

from protocol.errors import ErrorCode
from protocol.rows import Rows

ERROR_FIELDS: Final = ("error_code", "partition_error_code")  # the latter in AddPartitionsToTxn alone


def error_counter(cls: type[Struct]) -> Callable[[Any], Iterable[int]]:
    """Return a function that finds the error codes other than NONE in an response of that class, however deep they
    lie."""
    own, nested = _error_fields(cls)
    leaves: list[tuple[str, Callable[[Any], int]]] = []  # arrays of structs with a code and nothing else to look into
    inner: list[tuple[str, Callable[[Any], Iterable[int]]]] = []
    for name, of in nested:
        code_of, deeper = _error_fields(of)
        if code_of is not None and not deeper:
            leaves.append((name, code_of))
        else:
            inner.append((name, error_counter(of)))
    if not nested:
        if own is None:
            return lambda response: ()
        return lambda response: (code,) if (code := own(response)) else ()

    def codes(response: Any) -> list[int]:
        found = [code] if own is not None and (code := own(response)) else []
        for name, code_of in leaves:
            array = getattr(response, name)
            if type(array) is not Rows or array.shape.constants.get("error_code") != ErrorCode.NONE:
                found += filter(None, map(code_of, array or ()))
        for name, inner_codes in inner:
            for one in getattr(response, name) or ():
                found += inner_codes(one)
        return found

    return codes


@cache
def error_walker(cls: type[Struct]) -> Callable[[Any], Iterable[int]]:
    """Return a function to the codes of all structs in a response of that class, NONE among them: to count in steps."""
    own, nested = _error_fields(cls)
    inner = [(name, error_walker(of)) for name, of in nested]
    if not inner:
        return lambda response: () if own is None else (own(response),)

    def codes(response: Any) -> Iterator[int]:
        if own is not None:
            yield own(response)
        for name, inner_codes in inner:
            for one in getattr(response, name) or ():
                yield from inner_codes(one)

    return codes


def _error_fields(cls: type[Struct]) -> tuple[Callable[[Any], int] | None, list[tuple[str, type[Struct]]]]:
    """Return a class's own error code, and those of its arrays of structs in which there are some."""
    own = next((attrgetter(name) for name in cls.__struct_fields__ if name in ERROR_FIELDS), None)
    return own, [(name, inner) for name, inner in _arrays_of_structs(cls) if any(_error_fields(inner))]


def _arrays_of_structs(cls: type[Struct]) -> Iterator[tuple[str, type[Struct]]]:
    import typing

    for name, hint in typing.get_type_hints(cls).items():
        options: Sequence[Any] = (hint,) if typing.get_origin(hint) in (tuple, Sequence) else typing.get_args(hint)
        for option in options:
            of = typing.get_args(option)
            if (
                typing.get_origin(option) in (tuple, Sequence)
                and of
                and isinstance(of[0], type)
                and issubclass(of[0], Struct)
            ):
                yield name, of[0]
