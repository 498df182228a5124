"""docs/json.md has the keys of every command that it names, no more and no fewer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.calibration.synthetic import measurements, truth
from tests.claims.test_reproduce import CLAIMS
from tests.cli.small import tiertune
from tests.comparison.test_command import write_comparison
from tests.configs.corpus import ROOT
from tests.explanation.one_cell import QUICK, write_one
from tests.nightly.two import write_two
from tests.sweep.small import SWEEP, write_sweep
from tests.transfer.few import write_few

pytestmark = pytest.mark.long

ROW = re.compile(r"^\| `([a-z -]+)`((?: of [a-z ]+)?) \| (.*?) \|", re.MULTILINE)

DAMON = ("--from", "damon", ROOT / "tests/imports/corpus/damon/good/report-raw.txt")
MASIM = ("--from", "masim", ROOT / "tests/imports/corpus/masim/good/two-phases.txt")
CURVE = ROOT / "tests/calibration/curves/good/reads.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With a file for each command that takes one."""
    made = tmp_path_factory.mktemp("json")
    write_one(made)
    (made / "claims.yaml").write_text(CLAIMS)
    for name, write in (("few", write_few), ("cmp", write_comparison), ("two", write_two)):
        (made / name).mkdir()
        write(made / name)
    suite = yaml.safe_load((made / "two/two.yaml").read_text())
    (made / "two/two.yaml").write_text(yaml.safe_dump({**suite, "search": False}))
    (made / "sweeps").mkdir()
    write_sweep(made / "sweeps", SWEEP.replace('ratios: ["1:4"]', 'ratios: ["1:4", "1:8"]'))
    # What is called demo here comes before what is packaged, and is quick.
    (made / "two/campaigns").mkdir()
    demo = (made / "mine.yaml").read_text().replace("name: mine", "name: demo")
    (made / "two/campaigns/demo.yaml").write_text(demo.replace("./", f"{made}/"))
    (made / "measured.json").write_text(json.dumps(measurements(truth())))
    (made / "results").mkdir()
    (made / "results/mlflow.sqlite").touch()
    with chdir(made / "two"):  # workloads of a suite are found from there
        yield made


def commands(folder: Path) -> dict[str, tuple[str | Path, ...]]:
    """In an order in which each finds what it builds on."""
    where = ("-w", folder / "small-workload.yaml", "-m", "skx-numa", "--ratio", "1:12")
    sweep = folder / "sweeps/small.yaml"
    measured, one = folder / "measured.json", ("--out", folder / "one.yaml")
    gathered = ("--gallery-dir", folder / "results/gallery")
    few = ("--parameters", "migration_cost", "--together", "4")
    return {
        "run": ("run", "hemem", *where),
        "demo --dry-run": ("demo", "--dry-run"),
        "demo": ("demo",),
        "tune --dry-run": ("tune", folder / "mine.yaml", "--dry-run"),
        "tune": ("tune", folder / "mine.yaml"),
        "resume": ("resume", "mine"),
        "report": ("report", "mine"),
        "explain --dry-run": ("explain", "mine", "--dry-run"),
        "explain": ("explain", "mine", *QUICK),
        "transfer --dry-run": ("transfer", folder / "few/few.yaml", "--dry-run"),
        "transfer": ("transfer", folder / "few/few.yaml", "--seeds", "5", "--candidates", "1"),
        "gallery --dry-run": ("gallery", "few", "--dry-run"),
        "gallery": ("gallery", "few"),
        "gallery --check": ("gallery", "--check"),
        "gallery --renew --dry-run": ("gallery", "--renew", "--dry-run"),
        "gallery --renew": ("gallery", "--renew"),
        "compare --dry-run": ("compare", folder / "cmp/small.yaml", "--dry-run"),
        "compare": ("compare", folder / "cmp/small.yaml"),
        "sweep --dry-run": ("sweep", sweep, "--dry-run"),
        "sweep": ("sweep", sweep),
        "sensitivity --list": ("sensitivity", "--list"),
        "sensitivity": ("sensitivity", sweep, "--claim", "hemem/eager beats notier", *few),
        "reproduce": ("reproduce", "--claims", folder / "claims.yaml"),
        "reproduce --perturb": ("reproduce", "--claims", folder / "claims.yaml", "--id", "A-1", "--perturb"),
        "nightly --dry-run": ("nightly", folder / "two/two.yaml", "--dry-run"),
        "nightly": ("nightly", folder / "two/two.yaml", "--date", "2026-11-01", "--any-time"),
        "nightly accept": ("nightly", "accept", folder / "two/two.yaml"),
        "record of a workload": ("record", "btree@smoke", "-m", "skx-numa"),
        "record of several workloads": ("record", "btree@smoke", "gups@smoke", "-m", "skx-numa"),
        "profile import": ("profile", "import", *DAMON, "-o", folder / "damon.parquet"),
        "profile import of masim": ("profile", "import", *MASIM, "-o", folder / "phases.yaml"),
        "profile show": ("profile", "show", folder / "damon.parquet"),
        "profile diff": ("profile", "diff", folder / "damon.parquet", folder / "damon.parquet"),
        "calibrate": ("calibrate", "one", "--slow-from", "skx-cxl-emul", "--measurements", measured, *one),
        "calibrate --curve": ("calibrate", "skx-numa", "--curve", CURVE, "--out", folder / "curve.yaml"),
        "new-policy": ("new-policy", "eager", "--in", folder),
        "check-policy": ("check-policy", folder / "eager/eager.py"),
        "ui --mlflow": ("ui", "--mlflow"),
        "list": ("list", "workloads"),
        "show": ("show", "hemem"),
        "show --gallery": ("show", "hemem", "--gallery", *gathered),
        "show --gallery of a context": ("show", "hemem", "--gallery", *where, *gathered),
        "show of a workload": ("show", "btree"),
        "doctor": ("doctor",),
        "host show": ("host", "show"),
        "host diff": ("host", "diff", "here", "here"),
    }


WITHOUT_RESULTS = ("list", "show", "doctor", "host show", "profile", "new-policy", "check-policy")


def printed(name: str, command: tuple[str | Path, ...], folder: Path) -> Any:
    results = () if name.startswith(WITHOUT_RESULTS) else ("--results", folder / "results")
    done = tiertune(*command, *results, "--json")
    # A host may be unfit, which is said in the document as well.
    assert done.exit_code == 0 or name == "doctor", done.stderr
    found = json.loads(done.stdout)
    return found[0] if isinstance(found, list) else found


def test_each_command_prints_the_keys_of_its_line(folder: Path) -> None:
    page = (ROOT / "docs/json.md").read_text()
    told = {name + of: re.findall(r"`([a-z_]+)`", keys) for name, of, keys in ROW.findall(page)}
    asked = commands(folder)
    assert set(told) == set(asked)
    for name, command in asked.items():
        assert list(printed(name, command, folder)) == told[name], name
