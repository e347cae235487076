"""Records of a transaction."""

from tests.dataplane.broker import batch


def transactional_batch(producer: tuple[int, int], *values: str, sequence: int = 0) -> bytes:
    ids = {"producer_id": producer[0], "producer_epoch": producer[1]}
    return batch(*values, base_sequence=sequence, transactional=True, **ids)
