"""What a release refuses."""

from __future__ import annotations

import zipfile
from importlib.metadata import files
from pathlib import Path

import pytest

from tests.release import binaries
from tests.release.binaries import BinaryError
from tests.release.licences import LicenceError, Part, check, rules
from tests.release.parts import SHIPPED, crates, python_parts, rust_parts
from tests.release.wheels import WheelError, oldest_glibc
from tests.source_tree import ROOT
from tiertune import __version__

MIT = Part("a", "1.0", ("MIT",))


def test_everything_that_is_shipped_or_needed_has_a_licence_that_is_allowed() -> None:
    python = python_parts()
    locked = (ROOT / "requirements/run.lock").read_text(encoding="utf-8")
    names = {part.name for part in python}
    # The lock is of what is needed without extras, so all of it is among them.
    assert {line.split("==")[0] for line in locked.splitlines() if line[:1].isalnum()} <= names
    assert {"ansible-core", "dash"} <= names
    check(python, rules())


def test_every_crate_that_is_linked_has_a_licence_that_is_allowed() -> None:
    rust = rust_parts(crates())
    names = {part.name for part in rust}
    assert set(SHIPPED) <= names
    assert "proptest" not in names, "crates that only tests use are not linked"
    check(rust, rules())


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Part("b", "2", ("GPL-3.0-only",)), "b 2: GPL-3.0-only is not among those that are allowed"),
        (Part("b", "2", ("MIT AND GPL-2.0-only",)), "MIT AND GPL-2.0-only is not among"),
        (Part("b", "2", ()), "b 2: no licence that is known (nothing); name it under [read]"),
        (Part("b", "2", ("see the file",)), "b 2: see the file is not among"),
        # An exception is for the licence that was accepted, whatever the package becomes later.
        (Part("certifi", "9", ("GPL-3.0-only",)), "certifi 9: GPL-3.0-only is not among"),
    ],
)
def test_an_offender_is_named(part: Part, said: str) -> None:
    with pytest.raises(LicenceError) as refused:
        check([MIT, part], rules())
    (line,) = str(refused.value).splitlines()
    assert said in line


@pytest.mark.parametrize(
    "licence",
    [
        "MIT OR GPL-2.0-only",
        "Apache-2.0 WITH LLVM-exception",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "MIT/Apache-2.0",
        "License :: OSI Approved :: MIT License && License :: OSI Approved :: BSD License",
    ],
)
def test_a_permissive_licence_is_taken_however_it_is_written(licence: str) -> None:
    check([Part("c", "3", (licence,))], rules())


def test_a_program_that_is_not_static_or_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BinaryError, match="bash: it is not static"):
        binaries.check(Path("/bin/bash"), __version__)
    with pytest.raises(BinaryError, match="no program"):
        binaries.check(tmp_path / "gone", __version__)


@pytest.mark.parametrize(
    "tag",
    ["cp311-abi3-linux_x86_64", "cp312-cp312-manylinux_2_35_x86_64", "cp311-abi3-musllinux_1_2_x86_64"],
)
def test_a_wheel_for_one_machine_or_python_is_refused(tag: str, tmp_path: Path) -> None:
    with pytest.raises(WheelError, match="the tag is not cp311-abi3-manylinux"):
        oldest_glibc(tmp_path / f"tiertune_engine-1-{tag}.whl")


def test_a_wheel_that_needs_more_than_it_promises_is_refused(tmp_path: Path) -> None:
    (library,) = (Path(str(file.locate())) for file in files("tiertune-engine") or () if file.suffix == ".so")
    for promised, refused in (("2_5", True), ("2_99", False)):
        wheel = tmp_path / f"tiertune_engine-1-cp311-abi3-manylinux_{promised}_x86_64.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.write(library, "tiertune_engine/tiertune_engine.abi3.so")
        if refused:
            with pytest.raises(WheelError, match=r"symbols of glibc 2\.\d+"):
                oldest_glibc(wheel)
        else:
            assert oldest_glibc(wheel) == "2.99"
