"""Errors that the user can mend, apart from our own mistakes."""


class UsageError(ValueError):
    """Wrong use; the message is one line that says what to do."""
