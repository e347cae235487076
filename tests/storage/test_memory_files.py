"""Files in memory: what is in a directory is found without a look at any other one, and is what all paths together say."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from storage.files import StorageError
from storage.memory_files import MemoryFiles

DIRECTORIES: Final = ("d", "d/a-0", "d/a-1", "d/.new", "d/.new/a-0", "d/.new/a-1")
PLACES: Final = st.sampled_from(DIRECTORIES)
FILES: Final = st.tuples(PLACES, st.sampled_from("xyz")).map("/".join)
OPERATIONS: Final = st.one_of(
    st.tuples(st.sampled_from(("open", "open", "open", "remove")), FILES, st.just("")),
    st.tuples(st.sampled_from(("make", "make", "drop")), PLACES, st.just("")),
    st.tuples(st.just("rename"), FILES, FILES),
    st.tuples(st.just("rename"), PLACES, PLACES),
)


def find_inside(paths: set[str], directory: str) -> list[str]:
    """The names in a directory, found by going through all paths."""
    return sorted({path[len(directory) + 1 :].split("/")[0] for path in paths if path.startswith(directory + "/")})


@given(st.lists(OPERATIONS, max_size=25))
def test_a_directory_has_what_all_paths_say(done: list[tuple[str, str, str]]) -> None:
    disk, files, made = MemoryFiles(), dict[str, bytes](), set[str]()
    for number, (what, path, other) in enumerate(done):
        content = b"%d" % number
        if what == "open":
            disk.open(path, create=True).append(content)
            files[path] = files.get(path, b"") + content
        elif what == "make":
            disk.make_directory(path)
            made.add(path)
        elif what == "drop":
            disk.remove_directory(path)
            made.discard(path)
        elif what == "remove":
            try:
                disk.remove(path)
            except StorageError:
                assert path not in files
            files.pop(path, None)
        elif other == path or other.startswith(f"{path}/") or (path in made and find_inside({*files, *made}, other)):
            continue  # no file system does that
        else:
            try:
                disk.rename(path, other)
            except StorageError:
                assert path not in files and path not in made
                continue
            inside = {one for one in (*files, *made) if one == path or one.startswith(f"{path}/")}
            files |= {other + one.removeprefix(path): files[one] for one in inside if one in files}
            made |= {other + one.removeprefix(path) for one in inside if one in made}
            files = {one: data for one, data in files.items() if one not in inside}
            made -= inside
        for one in DIRECTORIES:
            assert disk.list(one) == find_inside({*files, *made}, one), (what, path, other)
        assert {one for one in (*files, *DIRECTORIES) if disk.exists(one)} == {*files, *made}
    assert {path: disk.open(path).pread(0, 99) for path in files} == files
    for path in tuple(files):
        disk.remove(path)
    for path in sorted(made, reverse=True):
        disk.remove_directory(path)
    assert not disk._names, "nothing is kept of what is gone"
