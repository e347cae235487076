"""Python source under construction: lines, names, and the constants that the finished function closes over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any

_LITERALS = (bool, int, str, bytes, type(None))


class Source:
    """One function being written. `names` is what it can see besides its parameters."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = {"__builtins__": __builtins__, **names}
        self._lines: list[str] = []
        self._depth = 1
        self._fresh = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write the lines inside below `head`."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """Return a name that nothing else has."""
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def struct(self, layout: str, method: str) -> str:
        """Return the name of one method of `Struct(">" + layout)`."""
        name = f"{method}_{layout.replace('?', 'bool')}"
        self.names.setdefault(name, getattr(Struct(">" + layout), method))
        return name

    def constant(self, value: Any) -> str:
        """Return an expression for a value that never changes."""
        if type(value) in _LITERALS or value == ():
            return repr(value)
        name = self.fresh("constant")
        self.names[name] = value
        return name

    def cls(self, cls: type[Any]) -> str:
        """Return the name of a class."""
        self.names[cls.__name__] = cls
        return cls.__name__

    def function(self, parameters: str) -> Callable[..., Any]:
        """Return the function, whose docstring is its own source."""
        text = "\n".join([f"def generated({parameters}):", *self._lines, ""])
        exec(compile(text, "<generated from a schema>", "exec"), self.names)  # noqa: S102 - our own text, from schemas
        function: Callable[..., Any] = self.names["generated"]
        function.__doc__ = text
        return function
