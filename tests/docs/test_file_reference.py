"""docs/files.md is what the schemas say; `UPDATE_GOLDEN=1` rewrites it."""

from __future__ import annotations

import os
import re

import pytest
import yaml

from tests.configs.corpus import KINDS, ROOT
from tests.docs.file_reference import EXAMPLES, reference
from tiertune.tuner.schemas import schema_for

PAGE = ROOT / "docs" / "files.md"


def test_page_is_what_the_schemas_say() -> None:
    written = reference()
    if os.environ.get("UPDATE_GOLDEN") == "1":
        PAGE.write_text(written, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == written


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_has_its_row(kind: str) -> None:
    """Asks the page, so that a part which the function forgets is noticed."""
    chapter = PAGE.read_text(encoding="utf-8").split(f"\n## {kind.capitalize()}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_]+)` \|", chapter, re.MULTILINE)
    schema = schema_for(kind)
    for owner in (schema, *schema.get("$defs", {}).values()):
        assert set(owner["properties"]) <= set(rows), owner["title"]
        assert owner["description"] in chapter


def test_examples_are_whole_files() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == len(EXAMPLES) == len(KINDS)
    for block, path in zip(blocks, EXAMPLES.values(), strict=True):
        assert yaml.safe_load(block)["name"] in (ROOT / path).read_text(encoding="utf-8")
