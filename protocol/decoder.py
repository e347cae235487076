"""A fast decoder for a construct: the tree is walked once, and Python is written that does what its `_parse` would.

Fields of fixed size that follow each other are one `unpack_from`, together with the first byte or bytes of the length
that ends the run. Strings are sliced without asking whether they are whole: what follows then fails, and the end is
looked at once. Any exception means that the bytes are not the schema's; `protocol.interpret` knows why.

    g1, n2 = unpack_from_lB(data, at)            what a run of an INT32 and a compact string looks like
    at += 5
    if n2 > 1: ...
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from itertools import starmap
from typing import Any

from construct import Construct, FormatField

from protocol import bounds, slow_paths
from protocol.constructs import ArrayOf, Blob, CountedArray, Text
from protocol.layouts import Together, fixed_layout, may_be_of_one_size, read_together
from protocol.row_reader import row_reader, row_reader_in_steps
from protocol.source import Source
from protocol.structs import NullableStruct, StructOf, TagSection, subconstructs

UNREADABLE = (ValueError, IndexError, struct.error)  # what a decoder raises; a UnicodeError is a ValueError
FLOOR_FRAME = bounds.BUDGET_FLOOR // bounds.RESPONSE_RATIO  # shorter ones get the floor

_NAMES = {
    "OverBudget": bounds.OverBudget,
    "budget_of": bounds.budget_of,
    "response_budget_of": bounds.response_budget_of,
    "long_text": slow_paths.long_text,
    "long_uvarint": slow_paths.long_uvarint,
    "skip_tags": slow_paths.skip_tags,
    "starmap": starmap,
    "unpack_from": struct.unpack_from,
}


def decoder(root: StructOf, *, is_small: bool = False, is_response: bool = False) -> Callable[[bytes], Any]:
    """Return a function from bytes to the value that they begin with. It raises one of `UNREADABLE`.

    Where it `is_small`, a long frame may cost no more memory than a short one.
    """
    budget_of = "response_budget_of" if is_response else "budget_of"
    return _Decoder(root, "" if is_small else budget_of).function


def decoder_in_steps(root: StructOf, *, is_small: bool = False) -> Callable[[bytes], Generator[None, None, Any]]:
    """Return the same function in steps: a generator that yields after each `STEP_BYTES`, and returns the value."""
    return _Decoder(root, "" if is_small else "budget_of", in_steps=True).function


class _Decoder:
    """The writer of one decoder: what has been read lies before `at`, and a run of fixed fields waits to be read."""

    def __init__(self, root: StructOf, budget_of: str, *, in_steps: bool = False) -> None:
        self.source = Source(_NAMES)
        self.in_steps = in_steps
        self.run: list[tuple[str, str]] = []  # struct format, variable
        self.in_array = 0
        self.source.line("size = len(data)")
        self.source.line("at = 0")
        if in_steps:
            self.source.line(f"pause = {bounds.STEP_BYTES}")
        if any(isinstance(subcon, ArrayOf) for subcon in subconstructs(root)):
            floor = bounds.BUDGET_FLOOR
            grows = f" if size <= {FLOOR_FRAME} else {budget_of}(size)" if budget_of else ""
            self.source.line(f"budget = {floor}{grows}")
        value = self.struct(root)
        with self.source.block("if at > size:"):
            self.source.line("raise ValueError('the frame ends early')")
        if in_steps:
            self.checkpoint("at")
        self.source.line(f"return {value}")
        self.function = self.source.function("data")

    # Each of these writes the lines that read one value, and returns the expression for it. A fixed one is only good
    # after the next `flush`.

    def value(self, subcon: Construct) -> str:
        if layout := fixed_layout(subcon):
            return self.read_fixed(layout)
        if isinstance(subcon, StructOf):
            return self.struct(subcon)
        if isinstance(subcon, Text):
            return self.text(subcon)
        if isinstance(subcon, Blob):
            return self.blob(subcon)
        if isinstance(subcon, ArrayOf):
            return self.array(subcon)
        assert isinstance(subcon, NullableStruct), f"no decoder for {subcon!r}"
        return self.nullable_struct(subcon)

    def read_fixed(self, layout: str) -> str:
        name = self.source.fresh("f")
        self.run.append((layout, name))
        return name

    def flush(self) -> None:
        """Read the run."""
        if not self.run:
            return
        layout = "".join(part for part, _ in self.run)
        names = ", ".join(name for _, name in self.run)
        if layout == "B":
            self.source.line(f"{names} = data[at]")
        else:
            self.source.line(f"{names}, = {self.source.struct(layout, 'unpack_from')}(data, at)")
        self.source.line(f"at += {struct.calcsize('>' + layout)}")
        self.run = []

    def struct(self, root: StructOf) -> str:
        values: dict[str, str] = {}
        for name, subcon in root.members:
            if isinstance(subcon, TagSection):
                values |= self.tags(subcon)
            else:
                values[name] = self.value(subcon)
        self.flush()
        return constructor_call(self.source, root, values)

    def count(self, subcon: CountedArray, long: str) -> str:
        """Read a length or count, plus one if it is compact."""
        name = self.source.fresh("n")
        self.run.append(("B" if subcon.compact else fixed_layout(subcon.prefix), name))
        self.flush()
        if subcon.compact:
            with self.source.block(f"if {name} > 127:"):
                self.source.line(f"{name}, at = {long}(data, at, {name})")
        return name

    def otherwise(self, subcon: CountedArray, count: str, target: str, empty: str) -> None:
        """Write the branches for nothing, null and nonsense."""
        with self.source.block(f"elif {count} == {int(subcon.compact)}:"):
            self.source.line(f"{target} = {empty}")
        if subcon.nullable:
            with self.source.block(f"elif {count} == {subcon.compact - 1}:"):
                self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.source.line("raise ValueError('negative, or null')")

    def charge(self, heap: str) -> None:
        self.source.line(f"budget -= {heap}")
        with self.source.block("if budget < 0:"):
            self.source.line("raise OverBudget('more elements than it may have')")

    def text(self, subcon: Text) -> str:
        return self.slice(subcon, "long_text", ".decode()", "''", f"{bounds.TEXT_HEAP} + {{0}}")

    def blob(self, subcon: Blob) -> str:
        return self.slice(subcon, "long_uvarint", "", "b''", str(bounds.BLOB_HEAP))

    def slice(self, subcon: CountedArray, long: str, convert: str, empty: str, heap: str) -> str:
        target = self.source.fresh("s")
        count = self.count(subcon, long)
        with self.source.block(f"if {count} > {int(subcon.compact)}:"):
            if subcon.compact:
                self.source.line(f"{count} -= 1")
            if self.in_array:
                self.charge(heap.format(count))
            self.source.line(f"end = at + {count}")
            self.source.line(f"{target} = data[at:end]{convert}")
            if self.in_array and isinstance(subcon, Text):
                with self.source.block(f"if len({target}) != {count}:"):
                    self.charge(f"{bounds.WIDE_HEAP} + {bounds.WIDE_HEAP_PER_BYTE} * {count}")
            self.source.line("at = end")
        self.otherwise(subcon, count, target, empty)
        return target

    def array(self, subcon: ArrayOf) -> str:
        target = self.source.fresh("a")
        count = self.count(subcon, "long_uvarint")
        with self.source.block(f"if {count} > {int(subcon.compact)}:"):
            if subcon.compact:
                self.source.line(f"{count} -= 1")
            with self.source.block(f"if {count} * {subcon.element_min} > size - at:"):
                self.source.line("raise ValueError('more elements than bytes for them')")
            self.charge(f"{bounds.ARRAY_HEAP} + {count} * {subcon.element_heap}")
            self.in_array += 1
            self.elements(subcon, count, target)
            self.in_array -= 1
        self.otherwise(subcon, count, target, "()")
        return target

    def elements(self, subcon: ArrayOf, count: str, target: str) -> None:
        element = subcon.element
        if isinstance(element, FormatField):
            layout = element.fmtstr[1:]
            with self.source.block(f"if {count} == 1:"):  # as of an acknowledgement: no format is to be looked up
                self.source.line(f"{target} = {self.source.struct(layout, 'unpack_from')}(data, at)")
            with self.source.block("else:"):
                self.source.line(f"{target} = unpack_from('>%d{layout}' % {count}, data, at)")
            self.source.line(f"at += {element.length} * {count}")
        elif isinstance(element, StructOf) and may_be_of_one_size(element):
            self.structs_of_one_size(element, count, target, in_columns=subcon.in_columns)
        else:
            self.loop(element, count, target)

    def loop(self, element: Construct, count: str, target: str) -> None:
        items = self.source.fresh("items")
        self.source.line(f"{items} = []")
        with self.source.block(f"for _ in range({count}):"):
            value = self.value(element)
            self.flush()
            self.source.line(f"{items}.append({value})")
            if self.in_steps:
                self.checkpoint("at")
        self.source.line(f"{target} = tuple({items})")

    def checkpoint(self, at: str) -> None:
        """Write the lines that give way, if enough bytes have been read since the last time."""
        with self.source.block(f"if {at} > pause:"):
            self.source.line(f"pause = {at} + {bounds.STEP_BYTES}")
            self.source.line("yield")

    def structs_of_one_size(self, element: StructOf, count: str, target: str, *, in_columns: bool) -> None:
        """Structs that are of one size while what may be empty is: all are read at once where it is in each of them."""
        together = read_together(element)
        end = f"at + {together.size} * {count}"
        if in_columns:
            self.rows(element, end, target)
            test = f"{target} is not None"
        else:
            chunk = self.source.fresh("chunk")
            self.source.line(f"{chunk} = data[at : {end}]")
            test = together.test(chunk, count)
        with self.source.block(f"if {test}:"):
            if not in_columns:
                self.all_at_once(element, together, chunk, target)
            self.source.line(f"at = {end}")
        with self.source.block("else:"):
            self.loop(element, count, target)

    def rows(self, element: StructOf, end: str, target: str) -> None:
        read = row_reader(element)
        call = f"{self.source.constant(read)}(data, at, {end})"
        if not self.in_steps:
            self.source.line(f"{target} = {call}")
            return
        in_steps = self.source.constant(row_reader_in_steps(read, read_together(element).size))
        with self.source.block(f"if {end} - at <= {bounds.STEP_BYTES}:"):
            self.source.line(f"{target} = {call}")
        with self.source.block("else:"):
            self.source.line(f"{target} = yield from {in_steps}(data, at, {end})")

    def all_at_once(self, element: StructOf, together: Together, chunk: str, target: str) -> None:
        if not self.in_steps:
            self.source.line(f"{target} = tuple({self.unpack(element, together, chunk)})")
            return
        items, begin = self.source.fresh("items"), self.source.fresh("begin")
        part_bytes = max(bounds.STEP_BYTES // together.size, 1) * together.size
        self.source.line(f"{items} = []")
        with self.source.block(f"for {begin} in range(0, len({chunk}), {part_bytes}):"):
            part = f"{chunk}[{begin} : {begin} + {part_bytes}]"
            self.source.line(f"{items} += {self.unpack(element, together, part)}")
            self.checkpoint(f"at + {begin}")
        self.source.line(f"{target} = tuple({items})")

    def unpack(self, element: StructOf, together: Together, chunk: str) -> str:
        """Return the expression for the messages in a chunk, which are all of one size."""
        unpacked = f"{self.source.struct(together.layout, 'iter_unpack')}({chunk})"
        if together.columns == element.cls.__struct_fields__[: len(element.members)]:
            return f"starmap({self.source.cls(element.cls)}, {unpacked})"
        names = {name: self.source.fresh("f") for name in together.columns}
        values = names | {name: repr(value) for name, value in together.constants.items()}
        call = constructor_call(self.source, element, values)
        return f"[{call} for {', '.join(names.values())}, in {unpacked}]"

    def tags(self, section: TagSection) -> dict[str, str]:
        """Read tagged fields, those that are there; the values of all of them by name."""
        count = self.source.fresh("t")
        self.run.append(("B", count))
        self.flush()
        values = {field.name: self.source.fresh("v") for field in section.fields}
        for field in section.fields:
            self.source.line(f"{values[field.name]} = {self.source.constant(field.default)}")
        with self.source.block(f"if {count}:"):
            if values:
                self.known_tags(section, count, values)
            else:
                self.source.line(f"at = skip_tags(data, at, {count})")
        return values

    def known_tags(self, section: TagSection, count: str, values: dict[str, str]) -> None:
        tag, length, last, end = (self.source.fresh(name) for name in ("tag", "length", "last", "end"))
        self.more(count)
        with self.source.block(f"if {count} > {bounds.TAGS_MAX}:"):
            self.source.line("raise ValueError('too many tagged fields')")
        self.source.line(f"{last} = -1")
        with self.source.block(f"for _ in range({count}):"):
            for name in (tag, length):
                self.source.line(f"{name} = data[at]")
                self.source.line("at += 1")
                self.more(name)
            with self.source.block(f"if {tag} <= {last}:"):
                self.source.line("raise ValueError('tags not ascending')")
            self.source.line(f"{last} = {tag}")
            self.source.line(f"{end} = at + {length}")
            for index, field in enumerate(section.fields):
                with self.source.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                    value = self.value(field.subcon)
                    self.flush()
                    self.source.line(f"{values[field.name]} = {value}")
                    with self.source.block(f"if at != {end}:"):
                        self.source.line("raise ValueError('a tagged field not of its size')")
            with self.source.block("else:"):
                self.source.line(f"at = {end}")

    def more(self, name: str) -> None:
        with self.source.block(f"if {name} > 127:"):
            self.source.line(f"{name}, at = long_uvarint(data, at, {name})")

    def nullable_struct(self, subcon: NullableStruct) -> str:
        target = self.source.fresh("o")
        present = self.read_fixed("b")
        self.flush()
        with self.source.block(f"if {present} == 1:"):
            self.source.line(f"{target} = {self.value(subcon.subcon)}")
        with self.source.block(f"elif {present} == {subcon.null}:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.source.line("raise ValueError('neither a struct nor null')")
        return target


def constructor_call(source: Source, root: StructOf, values: dict[str, str]) -> str:
    """Return the expression that makes a message of its values, by position; the defaults at the end are left to the
    class."""
    defaults = root.cls.__struct_defaults__
    arguments = [
        values.get(name) or source.constant(default)
        for name, default in zip(root.cls.__struct_fields__, defaults, strict=True)
    ]
    while arguments and root.cls.__struct_fields__[len(arguments) - 1] not in values:
        arguments.pop()
    return f"{source.cls(root.cls)}({', '.join(arguments)})"
