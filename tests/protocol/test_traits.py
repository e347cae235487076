"""The column of traits: no API lacks what a server has to know of it."""

import pytest

from protocol.apis import TABLE, names_with
from protocol.traits import Trait

API_NAMES = [api.name for api in TABLE]


@pytest.mark.parametrize("api", TABLE, ids=API_NAMES)
def test_each_api_says_whether_it_changes_anything(api) -> None:
    assert (Trait.READS in api.traits) != (Trait.CHANGES in api.traits)


@pytest.mark.parametrize("api", TABLE, ids=API_NAMES)
def test_a_name_that_says_what_an_api_does_is_believed(api) -> None:
    if api.name.startswith(("Describe", "List", "Get")) or api.name.endswith("Describe"):
        assert Trait.READS in api.traits
    if api.name.endswith("Heartbeat"):
        assert Trait.HEARTBEAT | Trait.INLINE | Trait.URGENT in api.traits, "a member must not wait"
    if api.name.startswith(("Create", "Delete", "Alter", "Add", "Remove", "Update", "Write", "Elect")):
        assert Trait.CHANGES in api.traits


def test_what_is_urgent_is_encoded_at_once_or_comes_before_a_client_is_known() -> None:
    urgent = names_with(Trait.URGENT) | names_with(Trait.URGENT_IF_BRIEF)
    assert urgent <= names_with(Trait.INLINE) | names_with(Trait.HANDSHAKE)


def test_what_is_kept_or_rests_on_records_is_encoded_at_once() -> None:
    """Large responses are neither kept nor withdrawn."""
    assert names_with(Trait.CONSTANT) | names_with(Trait.OF_TOPICS) <= names_with(Trait.INLINE)
