"""A command that runs beside the server, `muster serve -- COMMAND`, and ends it. Not a subcommand."""

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import trio

from coordinator.control.timeline import format_timelines
from coordinator.events import Ring

NOT_FOUND: Final = 127  # as a shell has it
JOURNAL_BYTES: Final = 16 << 20
SOURCE: Final = "-- COMMAND"


class Beside:
    """A process that is given the addresses of the server in its environment."""

    def __init__(self, words: Sequence[str], variables: Mapping[str, str]) -> None:
        self._words, self._variables = list(words), variables
        self._process: trio.Process | None = None
        self._early: list[int] = []  # signals that came while the process was being started

    async def run(self) -> tuple[int, str]:
        """Run it to its end, with the server's standard streams. Returns its exit code, and why it did not start."""
        try:
            self._process = await trio.lowlevel.open_process(self._words, env=os.environ | self._variables)
        except OSError as error:
            return NOT_FOUND, f"cannot run {self._words[0]}: {error.strerror}"
        for number in self._early:
            self._process.send_signal(number)
        try:
            code = await self._process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()  # a server that ends for another reason leaves nobody behind
        return _as_in_a_shell(code), ""

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process, None if it runs or has never been started."""
        code = None if self._process is None else self._process.returncode
        return None if code is None else _as_in_a_shell(code)

    def pass_on(self, number: int) -> bool:
        """Pass a signal on to the process: then its end ends the server. Returns whether it runs.

        Ctrl-C in a terminal has reached the process by itself.
        """
        process = self._process
        if process is not None and process.returncode is not None:
            return False
        if process is None:
            self._early += [number] if number != signal.SIGINT else []
        elif number != signal.SIGINT:
            process.send_signal(number)
        return True


def _as_in_a_shell(code: int) -> int:
    """Return an exit code that says by which signal a process was ended."""
    return 128 - code if code < 0 else code


def make_variables(kafka: Sequence[str], admin: str | None) -> dict[str, str]:
    """Return the environment's variables: for clients and examples, for muster's commands, and for pytest-muster."""
    servers = ",".join(kafka)
    variables = {"BOOTSTRAP_SERVERS": servers, "MUSTER_BOOTSTRAP": servers}
    return variables | ({"MUSTER": admin, "MUSTER_ADMIN": admin} if admin else {})


def print_timelines(ring: Ring) -> None:
    """Print the latest timelines of the groups: the server that could be asked is about to stop."""
    for line in format_timelines(ring.decode_after(0)):
        print(line, file=sys.stderr)
