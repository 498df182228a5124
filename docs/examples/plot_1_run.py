"""
One run over simulated time
===========================

HeMem on memory whose hot part moves: what a run comes to, and how the share of reads that fast memory serves
goes up and down as the system follows.
"""

import tempfile

import tiertune

results = tempfile.mkdtemp()
found = tiertune.run(
    "hemem", "masim-stairs-ci", "skx-numa", ratio="1:4", timeline_points=100, results=results
)
found

# %%
# Series over time, one column each.
axes = found.timeline.plot(x="time_s", y="fast_hit_ratio", legend=False, ylim=(0, 1.05))
axes.set(xlabel="simulated time (s)", ylabel="reads served by fast memory (share)")
