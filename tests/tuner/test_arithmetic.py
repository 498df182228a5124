"""Searches go one way on any processor, and what tiertune starts has all that the processor can do."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import ROOT
from tiertune.arithmetic import COMMON, SET, arithmetic_facts
from tiertune.tuner.host_facts import environment_facts

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="others are left alone")

PATHS = os.pathsep.join([str(ROOT), str(ROOT / "engine" / "python")])
PLAIN = {name: value for name, value in os.environ.items() if name not in {*COMMON, SET}}


def said(code: str, given: dict[str, str]) -> dict[str, str]:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import json, os\n{code}"],
        capture_output=True,
        text=True,
        check=True,
        env={**PLAIN, "PYTHONPATH": PATHS, **given},
    )
    answer: dict[str, str] = json.loads(ran.stdout)
    return answer


FACTS = """
import tiertune.tuner
from tiertune.arithmetic import arithmetic_facts
print(json.dumps(arithmetic_facts()))
"""


def test_no_process_calculates_with_more_than_others_have() -> None:
    found = said(FACTS, {})
    assert found == {"numpy": "X86_V3", "blas": "Haswell"}


def test_all_that_numpy_has_beyond_avx2_is_off() -> None:
    """A numpy with more would make searches differ between processors again."""
    dispatched = importlib.import_module("numpy._core._multiarray_umath").__cpu_dispatch__
    assert set(dispatched) - {"X86_V3"} == set(COMMON["NPY_DISABLE_CPU_FEATURES"].split())


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"OPENBLAS_CORETYPE": "Nehalem"}, {"blas": "Nehalem"}),
        ({"NPY_DISABLE_CPU_FEATURES": "X86_V3"}, {"numpy": "baseline(X86_V2)"}),
        ({"NPY_ENABLE_CPU_FEATURES": ""}, {}),
    ],
    ids=["blas", "less of numpy", "a choice of numpy's"],
)
def test_what_somebody_says_of_it_is_left_alone(given: dict[str, str], facts: dict[str, str]) -> None:
    found = said(FACTS, given)
    assert found == {**found, **facts}
    kept = said("import tiertune.tuner\nprint(json.dumps(dict(os.environ)))", given)
    assert {name: kept[name] for name in given} == given
    assert SET not in kept


def test_a_program_that_is_measured_has_the_environment_as_given(tmp_path: Path) -> None:
    code = f"""
import sys
import tiertune.tuner
from pathlib import Path
assert {SET!r} in os.environ
from tiertune.tuner.live.scope import run_in_scope
print(run_in_scope(["env"], Path(sys.argv[1]), 60).output and json.dumps(dict(os.environ)))
"""
    code = code.replace("sys.argv[1]", repr(str(tmp_path)))
    kept = said(code, {"MINE": "1"})
    assert kept["MINE"] == "1"
    assert not kept.keys() & {*COMMON, SET}
    seen = (tmp_path / "output.txt").read_text()
    assert "MINE=1" in seen
    assert not [name for name in (*COMMON, SET) if f"{name}=" in seen]


def test_results_say_what_was_calculated_with() -> None:
    assert environment_facts()["arithmetic"] == arithmetic_facts()
