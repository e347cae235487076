"""A part of the campaigns on every run: the long one is `python -m tests.storage.campaign`."""

from __future__ import annotations

import errno

from tests.storage import campaign


def test_a_crash_after_any_storage_call_loses_nothing_acknowledged() -> None:
    assert campaign.crash_points(seed=1, operations=120, every=16, every_call=7) >= 180


def test_the_log_says_what_the_model_says_after_each_compaction() -> None:
    assert sum(campaign.days(seed) for seed in range(100, 104)) >= 16


def test_a_torn_tail_is_cut_at_the_batch_it_begins_in() -> None:
    assert campaign.torn_tails(seed=1) + campaign.torn_tails(2, batches=9, spoilt_batches=6) >= 3_000


def test_a_torn_file_of_a_compaction_is_refused_or_never_looked_at() -> None:
    assert campaign.torn_compactions(seed=1, every_byte=7) >= 800


def test_every_flipped_bit_is_told_with_its_file() -> None:
    assert campaign.bit_flips(seed=1, flips=2_000) == 2_000


def test_every_flipped_bit_of_a_log_that_was_not_closed_is_told_with_its_file() -> None:
    assert campaign.bit_flips(seed=2, flips=2_000, size=8 * 1024, is_closed=False) == 2_000


def test_no_failing_call_loses_what_was_acknowledged() -> None:
    assert campaign.failing_calls(seed=2, operations=25, errors=(errno.EIO, errno.ENOSPC), every_call=3) >= 100
