"""The refusal of a verb."""

from storage.files import StorageError


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """Raised when a verb is not done: the reason, as one sentence. Nothing has changed."""

    def __init__(self, sentence: str, *, is_conflict: bool = False, failure: StorageError | None = None) -> None:
        super().__init__(sentence)
        self.is_conflict = is_conflict  # the request is fine, and the state of the server is not
        self.failure = failure  # of the disk
