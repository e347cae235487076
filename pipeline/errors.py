"""What the user can mend, told apart from what is a mistake of ours."""


class UsageError(ValueError):
    """Wrong use; the message is one line that says what to do."""
