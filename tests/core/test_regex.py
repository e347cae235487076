"""Patterns of clients: what the engine takes, and how much one may cost."""

import string

from coordinator.core import regex


def test_a_pattern_whose_states_explode_is_refused() -> None:
    """Each alternative needs two to the hundredth states; matching one name against all of them takes milliseconds."""
    costly = "|".join(f".*{letter}.{{100}}x" for letter in string.ascii_lowercase)
    assert "too large" in str(regex.reason_invalid(costly))
    assert regex.reason_invalid(".*a.{100}x") is None


def test_a_thousand_names_of_topics_are_a_pattern() -> None:
    names = [f"prefix-team.topic-{number:04}.v1" for number in range(1000)]
    assert regex.reason_invalid("|".join(names)) is None
    assert regex.matches("|".join(names), [*names[:3], "prefix-team"]) == tuple(names[:3])
