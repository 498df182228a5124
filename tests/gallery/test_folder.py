"""The gallery as files: what is written reads back, and nothing of others is deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gallery.entries import DIGESTS, PLAIN, TRAITS, carried, entry_of, made_by
from tiertune.files import InputError
from tiertune.tuner.gallery.carried import tests_in as read_tests
from tiertune.tuner.gallery.definition import Gallery, Validation, load_gallery
from tiertune.tuner.gallery.folder import galleries_of, text_of, write_galleries
from tiertune.tuner.transfer.traits import Traits

GALLERY = Gallery(name="hemem", entries=[entry_of(PLAIN)], tests=[carried({(1, 2): (["machine"], None)})])


@settings(deadline=None, max_examples=40)
@given(TRAITS, DIGESTS, st.floats(min_value=1e-300, max_value=1e15))
def test_what_is_written_reads_back_as_the_same(
    tmp_path_factory: pytest.TempPathFactory, traits: Traits, digest: str, value: float
) -> None:
    # Digests such as 1234e5678 are numbers to one reader of YAML and text to another.
    folder = tmp_path_factory.mktemp("gallery")
    made = made_by(builds=[digest, "1234567890123456", "12345678e1234567"], commit="00e1")
    # To the last bit: other builds are held against these.
    runs = Validation(seeds=[1, 2**53 - 1], default=[value, 1.0], tuned=[None, value / 3])
    entry = entry_of(traits, made=made).model_copy(update={"validation": runs})
    written = Gallery(name="hemem", entries=[entry], tests=GALLERY.tests)
    (path,) = write_galleries(folder, [written])
    assert load_gallery(str(path)) == written
    assert path.read_text(encoding="utf-8") == text_of(written)


def test_systems_that_are_gone_go_and_files_of_others_stop_it(tmp_path: Path) -> None:
    memtis = GALLERY.model_copy(update={"name": "memtis"})
    write_galleries(tmp_path, [GALLERY, memtis])
    (tmp_path / "README.md").write_text("kept")
    write_galleries(tmp_path, [GALLERY])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "hemem.yaml"]
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    before = (tmp_path / "hemem.yaml").read_text()
    changed = Gallery(name="hemem", entries=[entry_of(replace(PLAIN, threads=4))])
    with pytest.raises(InputError, match=r"mine\.yaml: not written by tiertune gallery"):
        write_galleries(tmp_path, [changed])
    assert (tmp_path / "hemem.yaml").read_text() == before


def test_earlier_folders_come_first_and_a_file_stands_for_a_folder(tmp_path: Path) -> None:
    other = Gallery(name="hemem", entries=[entry_of(replace(PLAIN, threads=4))])
    write_galleries(tmp_path / "one", [GALLERY])
    write_galleries(tmp_path / "two", [other])
    found = galleries_of("hemem", [tmp_path / "one", tmp_path / "missing", tmp_path / "two"])
    assert found == [GALLERY, other]
    (tmp_path / "two/hemem.yaml").rename(tmp_path / "copy.yaml")
    assert galleries_of("hemem", [tmp_path / "copy.yaml"]) == [other]
    assert galleries_of("memtis", [tmp_path / "copy.yaml"]) == []


def test_a_transfer_test_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a+b/transfer/transfer.json"
    path.parent.mkdir(parents=True)
    for text in ("{", '{"campaigns": ["a"]}'):
        path.write_text(text)
        with pytest.raises(InputError, match=r"a\+b/transfer/transfer.json: .*tiertune transfer a b"):
            read_tests(tmp_path, "hemem", ["hemem"], "")
