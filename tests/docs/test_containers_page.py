"""docs/containers.md: its options are there, its example is valid, its rights are those that are granted."""

from __future__ import annotations

import re

import yaml

from tests.configs.corpus import ROOT
from tiertune.tuner.container.confinement import RIGHTS
from tiertune.workloads.live import HostPart

PAGE = (ROOT / "docs/containers.md").read_text(encoding="utf-8")


def test_options_that_the_page_names_are_there() -> None:
    from typer.main import get_command

    from tiertune.tuner.cli.app import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    lines = re.findall(r"^    (tiertune .*?)(?:  |$)", PAGE, re.M)
    assert lines
    for line in lines:
        words = line.split()
        known = {option for parameter in commands[words[1]].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


def test_its_example_is_valid() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
    part = HostPart.model_validate(yaml.safe_load(block)["host"])
    assert part.container is not None
    assert not list(part.mistakes())
    assert part.memory_bytes == 18 << 30


def test_rights_that_the_page_names_are_those_of_the_container() -> None:
    assert set(re.findall(r"CAP_(\w+)", PAGE)) == set(RIGHTS)
