"""Entries of a gallery that nobody tuned, and contexts to draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hypothesis import strategies as st

from tiertune.tuner.gallery.definition import (
    DEFAULT,
    Entry,
    Gain,
    Likeness,
    MadeBy,
    Pair,
    Part,
    TransferTest,
)
from tiertune.tuner.gallery.staleness import Now
from tiertune.tuner.transfer.traits import Traits

HERE = Now("0.1.0", "0.1.0", "29f890f38bdf5de0")
PLAIN = Traits("bc", "bc-kron", "aa11", "skx-numa", "bb22", 1.9, 2.5, 12, "1:8", 2 << 20)

DIGESTS = st.text("0123456789abcdef", min_size=16, max_size=16)


def made_by(**changed: Any) -> MadeBy:
    """By what runs in `HERE`."""
    known = {
        "tiertune": HERE.tiertune,
        "engine": HERE.engine,
        "builds": [HERE.build],
        "command": "tiertune x",
    }
    return MadeBy(**{**known, **changed})


def entry_of(
    traits: Traits, *, improved: bool = True, made: MadeBy | None = None, space: str = "hemem"
) -> Entry:
    """An entry of that context."""
    likeness = {name: value for name, value in asdict(traits).items() if name in Likeness.model_fields}
    return Entry(
        workload=traits.workload,
        machine=traits.machine,
        ratio=traits.ratio,
        threads=traits.threads,
        page_size=traits.page_bytes,
        likeness=Likeness(**likeness),
        space=space,
        metric="runtime_s",
        direction="minimize",
        outcome="improved" if improved else DEFAULT,
        verdict="as it was",
        gain=Gain(ratio=1.3, low=1.2, high=1.4, confidence=0.95, seeds=10),
        knobs={"read_hot_threshold": 2} if improved else {},
        native="#define A (2UL) // one\n\n#undef B \n",
        campaign="mine",
        cell="a/b",
        seed=1,
        trials=60,
        measured_on="model",
        made_by=made or made_by(),
    )


def carried(moves: Mapping[tuple[int, int], tuple[list[Part], float | None]], **changed: Any) -> TransferTest:
    """A transfer test of as many contexts as `moves` name: what differs, and the share that was kept."""
    contexts = [f"c{number}" for number in range(1, max(max(pair) for pair in moves) + 1)]
    return TransferTest(
        space="hemem",
        seeds=8,
        contexts=contexts,
        pairs=[
            Pair(
                tuned_in=origin,
                run_in=to,
                differs=differs,
                ratio=kept,
                kept=kept,
                worse=kept is not None and kept < 0.9,
            )
            for (origin, to), (differs, kept) in moves.items()
        ],
        made_by=made_by(**changed),
    )


TRAITS = st.builds(
    Traits,
    program=st.sampled_from(["bc", "pr", "gups"]),
    workload=st.sampled_from(["one", "two"]),
    workload_digest=DIGESTS,
    machine=st.sampled_from(["skx-numa", "icx-pmem"]),
    machine_digest=DIGESTS,
    latency_gap=st.floats(1.0, 10.0),
    bandwidth_gap=st.floats(1.0, 30.0),
    threads=st.integers(1, 64),
    ratio=st.builds("{}:{}".format, st.integers(1, 16), st.integers(1, 16)),
    page_bytes=st.sampled_from([4 << 10, 2 << 20]),
    contention=st.sampled_from([0.0, 0.5]),
    co_runners=st.sampled_from(["alone", "tier1:r4w0"]),
)
