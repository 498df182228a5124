"""A system as published: its library is built for each configuration and loaded before the workload. The
library here is a few lines of C that pass on what they were built from."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tests.live.test_fitness import FIT
from tests.live.test_host_backend import HOST, TIERD
from tests.tuner.test_backends import TINY
from tiertune.tuner.backend import ConfigRejected, HostUnfit
from tiertune.tuner.execution import attempt
from tiertune.tuner.live.backend import HostBackend
from tiertune.tuner.live.fitness import Nodes
from tiertune.tuner.live.preloaded import Libraries, is_static, sizes_of
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Scenario, Status, Trial
from tiertune.tuner.upstream import Upstream
from tiertune.units import fast_tier_bytes
from tiertune.workloads.definition import load_workload

MIB = 1 << 20
LIBRARY = """\
#include <stdio.h>
#include <stdlib.h>
#define TEXT(macro) WORDS(macro)
#define WORDS(macro) #macro
__attribute__((constructor)) static void say(void) {
    char text[32];
    snprintf(text, sizeof text, "%lu", SAMPLE_PERIOD);
    setenv("BUILT_PERIOD", text, 1);
    setenv("BUILT_FAST", TEXT(FAST), 1);
}
"""
BUILD = """\
#!/bin/sh
set -e
echo "$1" >> {folder}/built.log
cc -shared -fPIC -include "$1" -DFAST=$2 -o {folder}/libstandin.so {folder}/standin.c
"""
# Its time is the sampling period that its library was built with.
PROGRAM = """\
import os
names = ("DRAMPATH", "NVMPATH", "DRAMSIZE", "NVMSIZE", "EXTRA", "BUILT_FAST")
print(" ".join(f"{name}={os.environ[name]}" for name in names))
print(f"took {os.environ['BUILT_PERIOD']} s")
"""
SCENARIO = Scenario("tiny", "skx-numa", "1:8", 4, 2 * MIB)
TRIAL = Trial("c", "cell", 1, SCENARIO, "hemem", {"sampling_period": 4001}, 5)
SIZES = sizes_of(fast_tier_bytes(1 << 30, "1:8", 2 * MIB), 1 << 30)


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def part(tmp_path: Path) -> Upstream:
    """Sources, a build and devices."""
    (tmp_path / "standin.c").write_text(LIBRARY)
    script(tmp_path / "build", BUILD.format(folder=tmp_path))
    for name in ("dax0.0", "dax1.0"):
        (tmp_path / name).touch()
    return Upstream(
        build=[f"{tmp_path}/build", "{header}", "{fast_bytes}"],
        library=f"{tmp_path}/libstandin.so",
        fast=f"{tmp_path}/dax0.0",
        slow=f"{tmp_path}/dax1.0",
        environment={"EXTRA": "of {slow_bytes}"},
    )


@pytest.fixture
def libraries(part: Upstream) -> Iterator[Libraries]:
    made = Libraries("hemem", part)
    yield made
    made.close()


def backend_of(folder: Path, part: Upstream, program: str = PROGRAM) -> HostBackend:
    script(folder / "program", f"#!{sys.executable} -SE\n{program}")
    script(folder / "tierd", f"#!{sys.executable} -SE\n{TIERD}")
    (folder / "tiny.yaml").write_text(TINY + HOST.replace("program,", f"{folder / 'program'},"))
    made = load_workload(str(folder / "tiny.yaml"))
    inner = SimBackend(folder / "profiles", lambda name: made)
    find = {"tierd": str(folder / "tierd")}
    return HostBackend(
        inner,
        {SCENARIO.key: made},
        Nodes(0, 0),
        lambda: (FIT, 0.0),
        lambda name: find.get(name, name),
        upstream={"hemem": part},
    )


def test_each_configuration_runs_with_a_library_of_its_own(tmp_path: Path, part: Upstream) -> None:
    backend = backend_of(tmp_path, part)
    backend.prepare(SCENARIO, lambda sentence: None)
    periods = [4001, 5003, 4001]
    found = [backend.run(replace(TRIAL, config={"sampling_period": period})) for period in periods]
    assert [one.metrics["runtime_s"] for one in found] == periods
    raws = [json.loads(one.raw or "") for one in found]
    digests = [raw["upstream"]["sha256"] for raw in raws]
    assert digests[0] == digests[2] != digests[1]
    assert "#define SAMPLE_PERIOD" in raws[0]["upstream"]["macros"]
    assert raws[0]["upstream"]["fast_bytes"] == SIZES["fast_bytes"]
    # The default, the probe of the macros, and 4001; the others were there.
    assert len((tmp_path / "built.log").read_text().splitlines()) == 3
    place = Path((tmp_path / "built.log").read_text().splitlines()[0])
    assert place.exists()
    backend.close()
    assert not place.parent.parent.exists()


def test_the_workload_is_told_devices_and_sizes(tmp_path: Path, part: Upstream) -> None:
    backend = backend_of(tmp_path, part)
    raw = json.loads(backend.run(TRIAL).raw or "")
    backend.close()
    fast, slow = SIZES["fast_bytes"], SIZES["slow_bytes"]
    assert (fast % (2 * MIB), slow) == (0, 1 << 30)
    assert raw["output"].splitlines()[0].split(" ", 4) == [
        f"DRAMPATH={tmp_path}/dax0.0",
        f"NVMPATH={tmp_path}/dax1.0",
        f"DRAMSIZE={fast}",
        f"NVMSIZE={slow}",
        f"EXTRA=of {slow} BUILT_FAST={fast}",
    ]


def test_sizes_are_whole_pages_of_the_library() -> None:
    assert sizes_of(5 * MIB, 9 * MIB) == {"fast_bytes": 4 * MIB, "slow_bytes": 10 * MIB}


def test_what_is_missing_is_said_with_what_to_do(part: Upstream) -> None:
    bare = part.model_copy(update={"fast": "/dev/no-dax0.0", "build": ["no-such-make"]})
    with pytest.raises(HostUnfit, match=r"the program no-such-make, .*the device /dev/no-dax0.0; `ndctl"):
        Libraries("hemem", bare).check(SIZES)


def test_a_build_that_does_not_read_the_macros_is_found_out(tmp_path: Path, libraries: Libraries) -> None:
    (tmp_path / "standin.c").write_text("#undef SAMPLE_PERIOD\n#define SAMPLE_PERIOD 5003UL\n" + LIBRARY)
    with pytest.raises(HostUnfit, match=r"is the same whether sampling_period is as usual or 997"):
        libraries.check(SIZES)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        ("#!/bin/sh\necho no rule >&2\nexit 2\n", "ended with 2: no rule"),
        ("#!/bin/sh\ntrue\n", "did not write"),
        ("#!/bin/sh\nsleep 60\n", "did not end within 0.2 s"),
    ],
)
def test_a_build_that_fails_is_the_hosts_matter(
    tmp_path: Path, part: Upstream, build: str, said: str
) -> None:
    script(tmp_path / "build", build)
    # An older one, which is not taken for what was asked for.
    (tmp_path / "libstandin.so").touch()
    libraries = Libraries("hemem", part.model_copy(update={"build_timeout_s": 0.2 if "60" in build else 60}))
    with pytest.raises(HostUnfit, match=said):
        libraries.of({}, SIZES)
    libraries.close()


def test_knobs_without_a_macro_are_as_usual(libraries: Libraries) -> None:
    # The rate has a macro, in bytes of a tick, whichever way it is meant.
    libraries.of({"rate_mode": "per_tick"}, SIZES)
    with pytest.raises(ConfigRejected, match=r"no macro for mmap_filter_size_bytes \(as usual: 1073741824"):
        libraries.of({"mmap_filter_size_bytes": 0}, SIZES)


def test_a_library_that_is_left_out_makes_the_host_unfit(tmp_path: Path, part: Upstream) -> None:
    """The dynamic linker says a word and goes on without it."""
    script(tmp_path / "build", f"#!/bin/sh\ncp $1 {tmp_path}/libstandin.so\n")
    backend = backend_of(tmp_path, part, "print('took 1.0 s')\n")
    measurement = attempt(backend, TRIAL)
    backend.close()
    assert measurement.status is Status.HOST_UNFIT
    assert "the workload ran without" in (measurement.error or ""), measurement
    assert "LD_LIBRARY_PATH" in (measurement.error or "")


def test_nothing_is_loaded_before_a_static_program(tmp_path: Path, libraries: Libraries) -> None:
    (tmp_path / "one.c").write_text("int main(void) { return 0; }\n")
    for name, options in (("dynamic", []), ("static", ["-static"]), ("pie", ["-static-pie"])):
        subprocess.run(["cc", *options, "-o", tmp_path / name, tmp_path / "one.c"], check=True)
    script(tmp_path / "script", "#!/bin/sh\n")
    found = {name: is_static(tmp_path / name) for name in ("dynamic", "static", "pie", "script")}
    assert found == {"dynamic": False, "static": True, "pie": True, "script": False}
    with pytest.raises(HostUnfit, match="static is linked statically"):
        libraries.command(libraries.of({}, SIZES), str(tmp_path / "static"))


def campaign(
    folder: Path,
    part: Upstream,
    knobs: str = "sampling_period: {}",
    page_size: str = "2MiB",
    more: str = "",
) -> str:
    (folder / "tiny.yaml").write_text(TINY + HOST + more)
    (folder / "space.yaml").write_text(
        f"name: mine\ndescription: x\nsystem: hemem\nknobs: {{{knobs}}}\n",
    )
    entry = json.dumps({"system": "hemem", "space": "./space.yaml", "upstream": part.model_dump()})
    (folder / "mine.yaml").write_text(
        "name: mine\nscenarios:\n  - {workload: ./tiny.yaml, machine: skx-numa, ratio: '1:8',"
        f" page_size: {page_size}}}\nsystems: [{entry}]\nbudget: {{trials: 2, initial: 1}}\n"
    )
    return str(folder / "mine.yaml")


@pytest.mark.parametrize(
    ("options", "changes", "said"),
    [
        (["--container", "0,1"], {}, "--container: upstream of hemem goes with --here"),
        (["--here", "0,0"], {"page_size": "4KiB"}, "upstream of hemem has pages of 2 MiB"),
        (
            ["--here", "0,0"],
            {"knobs": "mmap_filter_size_bytes: {}"},
            "searches mmap_filter_size_bytes",
        ),
        (
            ["--here", "0,0"],
            {"more": "  environment: {LD_PRELOAD: /usr/lib/libjemalloc.so.2}\n"},
            "upstream of hemem sets LD_PRELOAD itself, and so does the environment of tiny; leave it out",
        ),
    ],
)
def test_a_campaign_that_cannot_be_run_so_is_refused(
    tmp_path: Path, part: Upstream, options: list[str], changes: dict[str, str], said: str
) -> None:
    done = tiertune("tune", campaign(tmp_path, part, **changes), *options, "--results", tmp_path / "results")
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
    assert not (tmp_path / "results").exists()


def test_a_campaign_without_its_devices_ends_with_what_to_do(tmp_path: Path, part: Upstream) -> None:
    bare = part.model_copy(update={"slow": "/dev/no-dax1.0"})
    done = tiertune("tune", campaign(tmp_path, bare), "--here", "0,0", "--results", tmp_path / "results")
    assert done.exit_code == 3, done.output
    assert "hemem as published lacks the device /dev/no-dax1.0" in " ".join(done.output.split())
