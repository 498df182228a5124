"""
A small campaign
================

A search with a budget of 24 trials, and a verdict from fresh seeds. Random search keeps this example short;
real campaigns use more trials and the default optimiser.
"""

import tempfile

import tiertune

found = tiertune.tune(
    {
        "name": "example",
        "scenarios": [{"workload": "masim-stairs-ci", "machine": "skx-numa", "ratio": "1:4"}],
        "systems": [{"system": "hemem", "space": "hemem"}],
        "budget": {"trials": 24, "initial": 8},
        "optimiser": {"name": "random"},
        "validation": {"seeds": 5},
        "tracking": {"mlflow": False},
        "workers": 2,
    },
    results=tempfile.mkdtemp(),
)
found

# %%
# Every trial, and the best so far.
axes = found.trials.plot(x="number", y="value", style="o", label="trial")
found.trials.plot(x="number", y="best_so_far", drawstyle="steps-post", ax=axes, label="best so far")
axes.set(xlabel="trial", ylabel=found.cells.loc[0, "metric"])

# %%
# Knobs that the winner has off their defaults.
found.knobs.query("changed")[["name", "default", "tuned", "unit"]]
