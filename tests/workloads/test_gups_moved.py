"""GUPS by the clock: each thread has a hot eighth at the beginning of its part, and a quarter of it moves."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tiertune.workloads.definition import load_workload
from tiertune.workloads.streams import PiecesLaw

THREADS = 12
HOT = 1 / 8


def test_a_quarter_of_each_hot_part_moves_behind_its_end() -> None:
    streams = load_workload("gups-moved").sim.streams
    assert streams is not None
    phases = streams.blocks[0].phases
    assert [phase.seconds for phase in phases] == [None, 150, 300]
    for phase, moved in zip(phases, (0, 0, HOT / 4), strict=True):
        (stream,) = phase.groups[0].streams
        assert phase.groups[0].threads == THREADS
        assert stream.partitioned
        assert isinstance(stream.law, PiecesLaw)
        law = stream.law
        for thread in range(THREADS):
            # Nine tenths are for the hot part, the rest is spread over all, the hot part included.
            inside = [
                weight
                for (start, end), weight in zip(pairwise(law.edges), law.weights, strict=True)
                if moved - 1e-6 <= start * THREADS - thread and end * THREADS - thread <= moved + HOT + 1e-6
            ]
            part = law.weights[4 * thread : 4 * thread + 4]
            assert sum(inside) / sum(part) == pytest.approx(0.9 + 0.1 * HOT)
