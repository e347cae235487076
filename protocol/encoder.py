"""A fast encoder for a construct: the tree is walked once, and Python is written that does what its `_build` would.

The bytes are a list of pieces, joined once. Fields of fixed size that follow each other are one `pack`, together with
the length that ends the run; what is of fixed size as a whole is one `pack` and no list. Any exception means that a
value has no bytes; `protocol.interpret` knows which.

An encoder in pieces is a generator: it hands out what it has after each `PIECE_ELEMENTS` elements of arrays, so that
the caller can do something else in between. It is slower: each element is a turn of a loop, and is counted, and long
strings count as more. Opaque bytes may be given to it as anything that has a length, such as a range of a file: that is
a piece of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from construct import Bytes, Construct

from protocol import slow_paths
from protocol.constructs import ArrayOf, Blob, CountedArray, Text, uvarint
from protocol.layouts import empty_bytes, fixed_layout, may_be_of_one_size
from protocol.row_writer import RowWriter
from protocol.rows import Rows
from protocol.source import Source
from protocol.structs import NullableStruct, StructOf, TagSection

PIECE_ELEMENTS = 2_000  # of arrays, in one piece: one or two milliseconds
ELEMENT_BITS = 9  # of a length: a string or opaque bytes of 2^9 bytes are as much as an element
UNWRITABLE = (ValueError, TypeError, AttributeError, struct.error)  # what an encoder raises
_NAMES = {
    "Rows": Rows,
    "join": b"".join,
    "not_uuid": slow_paths.not_uuid,
    "pack": struct.pack,
    "short": slow_paths.SHORT_UVARINTS,
    "size_of": struct.Struct(">l").pack,
    "text_uvarint": slow_paths.text_uvarint,
    "uvarint": uvarint,
}


def encoder(root: StructOf, *, framed: bool = False) -> Callable[..., bytes]:
    """Return a function from the values of the root's members, in their order, to bytes. It raises one of `UNWRITABLE`.

    `framed`: with the size of it all before it, as a frame is sent.
    """
    return _Encoder(root, framed).function


def encoder_in_pieces(root: StructOf) -> Callable[..., Iterator[bytes]]:
    """Return a function from the values of the root's members, in their order, to an iterator over the bytes in pieces.

    The iteration raises one of `UNWRITABLE`.
    """
    return _Encoder(root, framed=True, in_pieces=True).function


def has_tags(struct_of: StructOf) -> bool:
    """Return whether tagged fields are defined for a struct, so that its size depends on its values."""
    return any(isinstance(subcon, TagSection) and subcon.fields for _, subcon in struct_of.members)


class _Encoder:
    """The writer of one encoder. Pieces and a run of fixed fields wait to be written; a branch or loop spills them."""

    def __init__(self, root: StructOf, framed: bool, in_pieces: bool = False) -> None:
        self.source = Source(_NAMES)
        self.in_pieces = in_pieces  # and not within a tagged field, whose size comes before it
        self.run: list[tuple[str, str]] = []  # struct format, expression ("" for a byte of padding)
        self.pieces: list[str] = []
        self.parts = ""  # the name of the list they are spilled to, once there is one
        if in_pieces:
            self.spill()
            self.source.line(f"left = {PIECE_ELEMENTS}")
        if framed:
            names = [name for name, _ in root.members if name]
            for name, subcon in root.members:
                self.member(subcon, name, "")
        else:
            names = ["message"]
            self.struct(root, "message")
        if in_pieces:
            self.source.line(f"yield {self.join_expression()}")
        else:
            self.source.line(f"return {self.frame_expression() if framed else self.join_expression()}")
        self.function = self.source.function(", ".join(names))

    def join_expression(self) -> str:
        """Return the expression for all that has been written."""
        if self.parts:
            self.spill()
            return f"join({self.parts})"
        self.flush()
        return self.pieces[0] if len(self.pieces) == 1 else f"join(({', '.join(self.pieces)}))"

    def frame_expression(self) -> str:
        """Return the same, with its size before it; known now, if all is of fixed size."""
        if not self.pieces and not self.parts:
            size = struct.calcsize(">" + "".join(layout for layout, _ in self.run))
            self.run.insert(0, ("l", str(size)))
            return self.join_expression()
        self.source.line(f"frame = {self.join_expression()}")
        return "size_of(len(frame)) + frame"

    # What waits: first the run, then pieces, then the list.

    def pack_expression(self, layout: str = "", value: str = "") -> str:
        """Return the expression that packs the run and one value more."""
        run = [*self.run, (layout, value)]
        function = self.source.struct("".join(part for part, _ in run), "pack")
        return f"{function}({', '.join(expression for _, expression in run if expression)})"

    def flush(self) -> None:
        if self.run:
            padding = all(layout == "x" for layout, _ in self.run)
            self.pieces.append(repr(bytes(len(self.run))) if padding else self.pack_expression())
            self.run = []

    def spill(self) -> None:
        """Write the lines for all that waits, so that a branch or a loop may follow."""
        self.flush()
        if not self.parts:
            self.parts = self.source.fresh("parts")
            self.source.line(f"{self.parts} = [{', '.join(self.pieces)}]")
        elif self.pieces:
            self.source.line(f"{self.parts} += ({', '.join(self.pieces)},)")
        self.pieces = []

    @contextmanager
    def apart(self) -> Iterator[str]:
        """Write what is inside to a list of its own, whose name this gives."""
        outer = self.run, self.pieces, self.parts, self.in_pieces
        self.run, self.pieces, self.parts, self.in_pieces = [], [], "", False
        self.spill()
        yield self.parts
        self.spill()
        self.run, self.pieces, self.parts, self.in_pieces = outer

    # Each of these writes one value, given the expression for it.

    def member(self, subcon: Construct, value: str, owner: str) -> None:
        if isinstance(subcon, TagSection):
            self.tags(subcon, owner)
        elif layout := fixed_layout(subcon):
            self.run.append((layout, self.fixed_value(subcon, value)))
        elif isinstance(subcon, StructOf):
            self.struct(subcon, value)
        elif isinstance(subcon, Text):
            self.text(subcon, value)
        elif isinstance(subcon, Blob):
            self.blob(subcon, value)
        elif isinstance(subcon, ArrayOf):
            self.array(subcon, value)
        else:
            assert isinstance(subcon, NullableStruct), f"no encoder for {subcon!r}"
            self.nullable_struct(subcon, value)

    def fixed_value(self, subcon: Construct, value: str) -> str:
        if not isinstance(subcon, Bytes):
            return value
        name = self.source.fresh("u")  # pack would cut or fill it in silence
        return f"({name} if len({name} := {value}) == {subcon.length} else not_uuid({name}))"

    def struct(self, subcon: StructOf, value: str) -> None:
        name = value
        if "." in value:
            name = self.source.fresh("m")
            self.source.line(f"{name} = {value}")
        for member, part in subcon.members:
            self.member(part, f"{name}.{member}", name)

    def count(self, subcon: CountedArray, count: str, long: str) -> None:
        """Write a length or count, which is one more if it is compact."""
        if not subcon.compact:
            self.run.append((fixed_layout(subcon.prefix), count))
            self.flush()
            return
        if self.run:
            short, rest = self.pack_expression("B", count), f"{self.pack_expression()} + {long}({count})"
        else:
            short, rest = f"short[{count}]", f"{long}({count})"
        self.pieces.append(f"({short} if {count} < 128 else {rest})")
        self.run = []

    def text(self, subcon: Text, value: str) -> None:
        data, count = self.measure(subcon, value, ".encode()", "b''")
        self.count(subcon, count, "text_uvarint")
        self.pieces.append(data)
        if self.in_pieces:
            self.source.line(f"left -= {count} + 1 >> {ELEMENT_BITS}")  # null is -1

    def blob(self, subcon: Blob, value: str) -> None:
        data, count = self.measure(subcon, value, "", "b''")
        self.count(subcon, count, "uvarint")
        if not self.in_pieces:
            self.pieces.append(data)
            return
        self.spill()
        with self.source.block(f"if type({data}) is bytes:"):
            self.source.line(f"{self.parts}.append({data})")
            self.source.line(f"left -= {count} + 1 >> {ELEMENT_BITS}")  # null is -1
        with self.source.block("else:"):
            self.source.line(f"yield join({self.parts})")
            self.source.line(f"yield {data}")
            self.source.line(f"{self.parts} = []")

    def measure(self, subcon: CountedArray, value: str, convert: str, empty: str) -> tuple[str, str]:
        """Return the names of a variable-sized value and of its count, once they are known."""
        name, count = self.source.fresh("v"), self.source.fresh("n")
        more = " + 1" if subcon.compact else ""
        self.source.line(f"{name} = {value}")
        if not subcon.nullable:
            if convert:
                self.source.line(f"{name} = {name}{convert}")
            self.source.line(f"{count} = len({name}){more}")
            return name, count
        with self.source.block(f"if {name} is None:"):
            self.source.line(f"{name}, {count} = {empty}, {subcon.compact - 1}")
        with self.source.block("else:"):
            if convert:
                self.source.line(f"{name} = {name}{convert}")
            self.source.line(f"{count} = len({name}){more}")
        return name, count

    def array(self, subcon: ArrayOf, value: str) -> None:
        items, count = self.measure(subcon, value, "", "()")
        self.count(subcon, count, "uvarint")
        item = self.source.fresh("item")
        element = subcon.element
        layout = fixed_layout(element)
        if layout and not isinstance(element, Bytes):
            self.pieces.append(f"pack('>%d{layout}' % len({items}), *{items})")
        elif layout:
            self.pieces.append(f"*[{self.fixed_value(element, item)} for {item} in {items}]")
        elif isinstance(element, StructOf) and element.is_fixed and not has_tags(element) and not self.in_pieces:
            outer, self.run = self.run, []
            self.struct(element, item)
            self.pieces.append(f"*[{self.pack_expression()} for {item} in {items}]")
            self.run = outer
        elif isinstance(element, StructOf) and may_be_of_one_size(element) and not has_tags(element):
            self.structs_of_one_size(element, items, item)
        else:
            self.loop(element, items, item)

    def loop(self, element: Construct, items: str, item: str) -> None:
        self.spill()
        with self.source.block(f"for {item} in {items}:"):
            self.member(element, item, item)
            self.spill()
            if self.in_pieces:
                self.end_piece()

    def structs_of_one_size(self, element: StructOf, items: str, item: str) -> None:
        """Structs that are of one size while their strings are empty: one `pack` each where all are, in a piece, and
        one for all where they are rows."""
        tests = [f"len({items}) < left"] if self.in_pieces else []
        for name, subcon in element.members:
            if isinstance(subcon, Text | Blob):
                nothing = "''" if isinstance(subcon, Text) else "b''"
                tests.append(f"[{item}.{name} for {item} in {items}].count({nothing}) == len({items})")
        self.spill()
        self.rows(element, items)
        with self.source.block(f"elif {' and '.join(tests)}:"):
            for name, subcon in element.members:
                if (empty := empty_bytes(subcon)) is None:
                    self.member(subcon, f"{item}.{name}", item)
                else:
                    self.run.append((f"{len(empty)}s", repr(empty)))
            self.pieces.append(f"*[{self.pack_expression()} for {item} in {items}]")
            self.run = []
            self.spill()
            if self.in_pieces:
                self.source.line(f"left -= len({items})")
        with self.source.block("else:"):
            self.loop(element, items, item)

    def rows(self, element: StructOf, items: str) -> None:
        """Write the branch for an array that is given in columns."""
        written, writer = self.source.fresh("w"), self.source.constant(RowWriter(element))
        test = f"type({items}) is Rows and ({written} := {writer}({items})) is not None"
        with self.source.block(f"if {f'len({items}) < left and ' if self.in_pieces else ''}{test}:"):
            self.pieces.append(written)
            self.spill()
            if self.in_pieces:
                self.source.line(f"left -= len({items})")

    def end_piece(self) -> None:
        """Write the lines that hand out what there is after so many elements and bytes."""
        self.source.line("left -= 1")
        with self.source.block("if left <= 0:"):
            self.source.line(f"left = {PIECE_ELEMENTS}")
            self.source.line(f"yield join({self.parts})")
            self.source.line(f"{self.parts} = []")

    def tags(self, section: TagSection, owner: str) -> None:
        """Write tagged fields, those that differ from their defaults."""
        if not section.fields:
            self.run.append(("x", ""))
            return
        present, count = self.source.fresh("tags"), self.source.fresh("t")
        self.source.line(f"{present} = []")
        self.source.line(f"{count} = 0")
        for field in section.fields:
            value = self.source.fresh("v")
            self.source.line(f"{value} = {owner}.{field.name}")
            with self.source.block(f"if {value} != {self.source.constant(field.default)}:"):
                with self.apart() as parts:
                    self.member(field.subcon, value, value)
                self.source.line(f"{value} = join({parts})")
                self.source.line(f"{present} += ({uvarint(field.tag)!r}, uvarint(len({value})), {value})")
                self.source.line(f"{count} += 1")
        self.run.append(("B", count))
        self.flush()
        self.pieces.append(f"*{present}")

    def nullable_struct(self, subcon: NullableStruct, value: str) -> None:
        name = self.source.fresh("o")
        self.source.line(f"{name} = {value}")
        self.spill()
        with self.source.block(f"if {name} is None:"):
            self.run.append(("b", str(subcon.null)))
            self.spill()
        with self.source.block("else:"):
            self.run.append(("b", "1"))
            self.struct(subcon.subcon, name)
            self.spill()
