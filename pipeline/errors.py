"""Errors that the user can mend, apart from our own mistakes. Nothing is imported to name one."""


class UsageError(ValueError):
    """Wrong use; the message is one line that says what to do."""


class TablesInUseError(RuntimeError):
    """Another process writes to these tables."""


class LogDamagedError(ValueError):
    """A log has a problem, and the reader was asked to fail instead of reporting it."""


class CompactionRefusedError(ValueError):
    """The log has problems: what is missing cannot be known to be superseded."""
