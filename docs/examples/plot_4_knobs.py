"""
Default against other knobs
===========================

The same seeds and the same noise for two configs of one system, so that the difference is of the knobs alone.
"""

import tempfile

import pandas as pd

import tiertune

results = tempfile.mkdtemp()
configs = {"default": {}, "eager": {"sampling_period": 1000, "migration_period_ms": 2.0}}
runs = {
    name: tiertune.run(
        "hemem",
        "masim-stairs-ci",
        "skx-numa",
        config=config,
        ratio="1:4",
        seeds="1-3",
        noise="paired",
        timeline_points=80,
        results=results,
    )
    for name, config in configs.items()
}
medians = pd.DataFrame({name: run.median for name, run in runs.items()})
medians.loc[["runtime_s", "promotions", "migrated_bytes"]]

# %%
axes = None
for name, run in runs.items():
    first = run.timeline.query("seed == 1")
    axes = first.plot(x="time_s", y="fast_hit_ratio", label=name, ax=axes)
axes.set(xlabel="simulated time (s)", ylabel="reads served by fast memory (share)")
