"""Operations of the control API: JSON in, JSON out, and the OpenAPI document that describes them.

    Operation("POST", "/v1/clock/advance", "Move the clock forward", advance, body=Advance, result=Advanced)

The handler gets the typed body and query, and returns a value that becomes JSON. What does not fit the types is
answered 400 with a sentence, and a handler refuses by raising `Refusal`. The document is read off the same table.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from coordinator import __version__
from coordinator.admin.http import Pieces, Request, Response, Stream
from coordinator.admin.json_pieces import encode_in_pieces, is_long
from coordinator.admin.router import Router

JSON: Final = "application/json"
TOML: Final = "application/toml"  # for files that people write
PATH: Final = "/v1/openapi.json"
LOOKING: Final = frozenset({"/v1/wait", "/v1/verify"})
_UNKNOWN: Final = re.compile(
    r"(?:Invalid enum value|Object contains unknown field) .*?(?: - at `\$(?P<path>.*)`)?$", re.DOTALL
)
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")  # of such a path: `.do.drop`, `[0]`


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """Raised when an operation is not done: the reason, as one sentence. Nothing has changed."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


class Problem(Struct, frozen=True):
    """The body of every answer that is no success."""

    error: str


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A body or a query without any field."""


class Input(Struct, frozen=True):
    """The input of an operation: the names in its path, its query and its body."""

    path: Mapping[str, str]
    query: Any
    body: Any


class Text(Struct, frozen=True):
    """A result that is not JSON."""

    body: bytes
    content_type: str


class Operation(Struct, frozen=True):
    """One method of one path."""

    method: str
    path: str
    summary: str
    handle: Callable[[Input], Any | Awaitable[Any]]
    body: Any = Nothing
    query: Any = Nothing
    result: Any = Nothing
    others: tuple[str, ...] = ()  # media types of a result that is not JSON
    is_stream: bool = False  # whether the handler returns a Stream

    @property
    def changes_nothing(self) -> bool:
        """Whether it only looks: those that wait and compare take a body, and so are no GET."""
        return self.method == "GET" or self.path in LOOKING


def add_operations(router: Router, operations: Iterable[Operation], refusal: str = "") -> None:
    """Let the router answer the operations, and give their description at `PATH`.

    With a `refusal`, those that change something are refused with that sentence.
    """
    table = tuple(operations)
    for operation in table:
        if refusal and not operation.changes_nothing:
            router.add(operation.method, operation.path, lambda _: _json(Problem(refusal), 403))
        else:
            router.add(operation.method, operation.path, _handler(operation))
    document = msgspec.json.encode(describe(table))
    router.add("GET", PATH, lambda _: Response(document + b"\n", content_type=JSON))


def _handler(operation: Operation) -> Callable[[Request], Awaitable[Response | Stream]]:
    async def handle(request: Request) -> Response | Stream:
        try:
            result = operation.handle(
                Input(request.parameters, _query(operation.query, request.query), _body(operation.body, request))
            )
            if inspect.isawaitable(result):
                result = await result
        except Refusal as refusal:
            return _json(Problem(str(refusal)), refusal.status)
        if isinstance(result, Text):
            return Response(result.body, content_type=result.content_type)
        if operation.is_stream:
            stream: Stream = result
            return stream
        return Pieces(chain(encode_in_pieces(result), (b"\n",)), JSON) if is_long(result) else _json(result)

    return handle


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value) + b"\n", status, JSON)


def _body(kind: Any, request: Request) -> Any:
    """Read a body: JSON, or TOML if it says that it is."""
    is_toml = request.headers.get("content-type", "").partition(";")[0].strip().lower() == TOML
    try:
        if is_toml:
            return msgspec.toml.decode(request.body.decode(), type=kind)
        return msgspec.json.decode(request.body or b"{}", type=kind)
    except msgspec.DecodeError as error:
        raise Refusal(f"invalid body: {error}{list_expected(kind, str(error))}") from None
    except UnicodeDecodeError:
        raise Refusal("invalid body: expected UTF-8") from None
    except RecursionError:
        raise Refusal("invalid body: it is nested too deeply") from None


def _query(kind: Any, text: str) -> Any:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=16)
    except ValueError as error:
        raise Refusal(f"invalid query: {error}") from None
    values = dict(pairs)
    if len(values) < len(pairs):
        raise Refusal("invalid query: a name is given twice")
    try:
        return msgspec.convert(values, type=kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(f"invalid query: {error}{list_expected(kind, str(error))}") from None


def list_expected(kind: Any, complaint: str) -> str:
    """Return `; expected one of ...`, if msgspec complains about a name or a value of which there are only a few."""
    found = _UNKNOWN.match(complaint)
    if found is None:
        return ""
    from msgspec import inspect as types  # only a mistake needs it

    reached = [types.type_info(kind)]
    for name, _ in _STEP.findall(found["path"] or ""):
        reached = [inner for one in reached for inner in _step_into(types, one, name)]
    names = [str(name) for one in reached for name in _names_in(types, one)]
    return f"; expected one of {', '.join(names)}" if names else ""


def _step_into(types: Any, kind: Any, name: str) -> Iterator[Any]:
    """Yield the types of a field, or with an empty `name` of an element."""
    for one in kind.types if isinstance(kind, types.UnionType) else (kind,):
        if isinstance(one, types.StructType):
            yield from (field.type for field in one.fields if field.encode_name == name)
        elif isinstance(one, types.ListType):
            yield one.item_type
        elif isinstance(one, types.DictType):
            yield one.value_type


def _names_in(types: Any, kind: Any) -> Iterator[Any]:
    """Yield the fields of a struct, or the values of a literal."""
    for one in kind.types if isinstance(kind, types.UnionType) else (kind,):
        if isinstance(one, types.StructType):
            yield from (field.encode_name for field in one.fields)
        elif isinstance(one, types.LiteralType):
            yield from (value or "nothing" for value in one.values)


def describe(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of some operations."""
    table = tuple(operations)
    kinds = [kind for one in table for kind in (one.body, one.query, one.result)]
    schemas, components = msgspec.json.schema_components([*kinds, Problem], ref_template="#/components/schemas/{name}")
    by_operation = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for one in table:
        body, query, result = next(by_operation), next(by_operation), next(by_operation)
        paths.setdefault(one.path, {})[one.method.lower()] = _describe(one, body, query, result, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Muster control API", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": components},
    }


def _describe(one: Operation, body: Any, query: Any, result: Any, components: Mapping[str, Any]) -> dict[str, Any]:
    names = [part[1:-1] for part in one.path.split("/") if part.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    fields = components[query["$ref"].rpartition("/")[2]]["properties"]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in fields.items()
    ]
    content = {JSON: {"schema": result}, **{media: {} for media in one.others}}
    problem = {
        "description": "Why it was not done",
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    described: dict[str, Any] = {
        "summary": one.summary,
        "operationId": one.method.lower() + "_" + "_".join(part.strip("{}") for part in one.path.split("/")[2:]),
        "parameters": parameters,
        "responses": {"200": {"description": "Done", "content": content}, "default": problem},
    }
    if one.body is not Nothing:
        described["requestBody"] = {"content": {media: {"schema": body} for media in (JSON, TOML)}}
    return described
