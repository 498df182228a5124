"""Scenes of claims in small, in which the fast mode has to come out as the reference mode does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.modes import WORST, Scene, compared, quicker, scenes, shorter, smaller
from tiertune.workloads.definition import load_workload


@pytest.fixture(scope="module")
def of_claims(tmp_path_factory: pytest.TempPathFactory) -> list[Scene]:
    return scenes("public", tmp_path_factory.mktemp("results"))


def test_every_scene_is_there_once_and_names_its_claims(of_claims: list[Scene]) -> None:
    claims = {claim for scene in of_claims for claim in scene.claims}
    assert {"SA-03", "PT-01", "FX-01", "CO-01"} <= claims
    assert len({id(scene.run) for scene in of_claims}) == len(of_claims) > 100


# Interleaved pages under a sweep, chains and streams side by side, and load beside them.
@pytest.mark.parametrize("system", ["interleave", "soar", "all-slow"])
def test_both_modes_run_as_long(of_claims: list[Scene], system: str, tmp_path: Path) -> None:
    of_system = [
        scene for scene in of_claims if scene.name.startswith("seq-chase ") and scene.run.system == system
    ]
    found = compared(of_system[-1], tmp_path)
    assert abs(found["error"]) <= WORST, found
    assert found["accesses"] > 1e6


def test_a_small_scene_keeps_laws_and_shortens_times() -> None:
    whole = load_workload("seq-chase")
    assert whole.sim.streams is not None
    little = smaller(whole, 2**16)
    assert little.sim.streams is not None
    assert [model.bytes for model in little.sim.streams.objects] == [2**27, 2**27]
    quick = shorter(whole, 1e-3)
    assert quick.sim.streams is not None
    group = quick.sim.streams.blocks[0].phases[0].groups[0]
    assert group.ops == pytest.approx(26e6)
    assert group.streams == whole.sim.streams.blocks[0].phases[0].groups[0].streams
    graph = smaller(load_workload("bc-kron"), 2**16)
    assert graph.sim.record is not None
    assert (graph.sim.record.model_dump()["scale"], graph.sim.carry.scale) == (14, 18)


def test_times_and_events_per_sample_shrink_as_far_as_their_bounds() -> None:
    config = quicker("pact", {"pebs_period": 400}, 0.5, 0.01)
    assert config["pebs_period"] == 50
    assert config["sampling_interval_ms"] == 10
    assert config["balance_interval_s"] == 0.5
    assert "bin_count" not in config
