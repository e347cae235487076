"""What the docs say of the code is what the code says now."""

import pytest

from docs import generate
from docs.protocol_page import apis_table, page
from protocol.apis import TABLE


@pytest.mark.parametrize("path", generate.paths())
def test_a_generated_page_is_fresh(path: str) -> None:
    assert not generate.is_stale(path), f"{path} is stale: run `python -m docs.generate`"


def test_every_api_has_its_section_and_its_kips() -> None:
    text = page()
    for api in TABLE:
        assert f"## {api.name} ({api.key})\n" in text
        assert all(f"| {version} | {brought} |" in text for version, brought in api.changes.items()), api.name


def test_a_field_is_shown_with_its_type_versions_default_and_comment() -> None:
    lines = page().splitlines()
    assert "| `members[].group_instance_id` | nullable string | 5+ | null |  |" in lines
    assert (
        '| `protocol_name` | string, nullable from 7 | 0+ | empty | None for a refused member from version 7, "" before |'
        in lines
    )
    assert "| `topics[].partitions[].replica_directory_id` | uuid, tag 0 | 17+ | zero |  |" in lines
    assert "| `retention_time_ms` | int64 | 2-4 | -1 | -1: as the server is set |" in lines


def test_the_table_of_apis_names_what_is_offered_and_nothing_else() -> None:
    assert apis_table({12: range(5), 47: range(1)}) == (
        "| API | key | versions |\n| --- | --- | --- |\n| Heartbeat | 12 | 0-4 |\n| OffsetDelete | 47 | 0 |\n"
    )


def test_a_block_takes_the_place_of_what_stood_between_its_markers() -> None:
    text = "before\n<!-- apis: made -->\nold\n<!-- /apis -->\nafter\n"
    assert generate.with_block(text, "apis", "new\n") == "before\n<!-- apis: made -->\nnew\n<!-- /apis -->\nafter\n"


@pytest.mark.parametrize("text", ["no markers", "<!-- apis -->\n<!-- /apis -->\n" * 2])
def test_a_block_wants_one_place(text: str) -> None:
    with pytest.raises(ValueError, match="places for 'apis'"):
        generate.with_block(text, "apis", "new")
