"""
A policy in Python
==================

A tiering policy is a class with knobs and methods that are called as time passes. Registered, it runs beside
the engine's own: slower to simulate, the same machine.
"""

import tempfile

import tiertune


@tiertune.register
class Greedy(tiertune.Policy):
    """Takes sampled pages to fast memory while there is room."""

    name = "greedy"
    summary = "every sampled page goes up while there is room"
    signal = "hardware samples of LLC load misses"

    sampling_period = tiertune.Int(5000, 100, 100_000, "LLC load misses per sample", log=True)

    def samplers(self):
        return [tiertune.Sampler("load-miss", self.sampling_period)]

    def on_alloc(self, extent, cx):
        # New pages go to slow memory, so that fast memory is for those that prove hot.
        return "slowest-free"

    def on_samples(self, samples, cx):
        room = cx.free_pages(0)
        asked = set()
        for sample in samples:
            if room > len(asked) and sample.page not in asked and cx.tier_of(sample.page) != 0:
                cx.migrate(sample.page, 0)
                asked.add(sample.page)


found = tiertune.sweep(
    {
        "systems": ["greedy", "mru", "notier"],
        "workloads": ["masim-stairs-ci"],
        "machines": ["skx-numa"],
        "ratios": ["1:4"],
    },
    results=tempfile.mkdtemp(),
)
found.groups.set_index("system")[["slowdown", "promotions", "demotions"]]

# %%
axes = found.groups.plot.bar(x="system", y="slowdown", legend=False, rot=0)
axes.set(xlabel="", ylabel="times slower than all-fast")
