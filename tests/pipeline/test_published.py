"""Which builds are there after each build, and what a place below another is called."""

from pathlib import Path
from random import Random

import pytest

from pipeline.decode.files import Store
from pipeline.published import BUILDS, LINK, Snapshot, load, publish


@pytest.mark.parametrize("seed", range(20))
def test_the_build_before_stays_until_the_next_one(seed: int, tmp_path: Path) -> None:
    """Whoever reads it goes on; older ones go, and so does what a build has left that was killed."""
    dice, before = Random(seed), ""
    for number in range(6):
        build = f"build-{number}"
        for name in (build, *[f"killed-{number}"] * dice.randrange(2)):
            (tmp_path / BUILDS / name / "groups").mkdir(parents=True)
            (tmp_path / BUILDS / name / "groups" / "part-0.parquet").write_bytes(b"rows")
        form = dice.choice(["parquet", "parquet", "delta"])
        publish(str(tmp_path), Snapshot(format=form, build=build), "-- views")
        assert load(str(tmp_path)).build == build
        assert {one.name for one in (tmp_path / BUILDS).iterdir()} == {build, before} - {""}
        link = tmp_path / LINK
        if form == "parquet":
            assert link.resolve() == tmp_path / BUILDS / build
        else:
            assert not link.exists()
        before = build


@pytest.mark.parametrize("query", ["", "?endpoint_override=127.0.0.1:9&scheme=http"])
@pytest.mark.parametrize("root", ["s3://bucket", "s3://bucket/", "s3://bucket/out", "s3://bucket/out/"])
def test_a_place_below_another_is_in_the_same_file_system(root: str, query: str) -> None:
    store = Store.of(root + query)
    below = store.under("raw").under("offset_commits")
    plain = f"{root.rstrip('/')}/raw/offset_commits"
    assert below.uri == plain + query
    assert (below.spark_uri(), below.spark_uri("part-0")) == ("s3a" + plain[2:], f"s3a{plain[2:]}/part-0")
    assert store.spark_uri() == "s3a" + root.rstrip("/")[2:]
    assert below.display_uri == plain


def test_a_place_below_a_directory_may_have_any_name() -> None:
    store = Store.of("/data/what?where=here")
    assert store.under("raw").uri == "/data/what?where=here/raw"
    assert store.under("raw").spark_uri("a") == "/data/what?where=here/raw/a"
