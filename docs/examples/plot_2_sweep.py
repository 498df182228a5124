"""
A sweep over ratios
===================

How much slower than all-fast memory are systems, as fast memory gets scarce?
"""

import tempfile

import tiertune

found = tiertune.sweep(
    {
        "systems": ["hemem", "mru", "notier"],
        "workloads": ["masim-stairs-ci"],
        "machines": ["skx-numa"],
        "ratios": ["1:1", "1:2", "1:4", "1:8"],
    },
    seeds=[1, 2],
    results=tempfile.mkdtemp(),
)
table = found.groups.pivot_table(index="fast", columns="system", values="slowdown", sort=False)
table

# %%
axes = table.plot(marker="o")
axes.set(xlabel="fast:slow memory", ylabel="times slower than all-fast")
