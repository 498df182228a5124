"""Everything that a run is measured by, under one roof: declared by the engine, by the kernels, here for what
only hosts have, and by rule for phases."""

from __future__ import annotations

from tiertune.engine import MetricInfo, kernels, metrics
from tiertune.workloads import phases

OF_HOSTS = (
    MetricInfo("promoted_bytes", "B", "", "covariate", "Bytes that tierd moved to the fast tier."),
    MetricInfo("demoted_bytes", "B", "", "covariate", "Bytes that tierd moved to the slow tier."),
    MetricInfo("tierd_cpu_s", "s", "minimize", "secondary", "CPU time of tierd, sampling included."),
    MetricInfo(
        "unmanaged_processes",
        "",
        "",
        "covariate",
        "Most processes of the program at a time that tierd did not manage, since there were too many.",
    ),
    MetricInfo("peak_rss_bytes", "B", "", "covariate", "Most memory that the program held."),
)
"""What live runs measure beside the engine's own metrics."""


def declared(name: str) -> MetricInfo | None:
    """The declaration of a metric; None for one that only the operator's own file names."""
    for one in (*metrics(), *OF_HOSTS):
        if one.name == name:
            return one
    of_kernels = (one for kernel in kernels() for one in kernel.metrics)
    return next((one for one in of_kernels if one.name == name), None) or phases.declared(name)


def of_hosts(measured: set[str]) -> list[MetricInfo]:
    """Declarations of what was measured and is not among the engine's metrics: the daemon's first, then the
    kernels', then phases in the order of their names."""
    known = {one.name for one in metrics()}
    fixed = [one.name for one in (*OF_HOSTS, *(one for kernel in kernels() for one in kernel.metrics))]
    names = [*dict.fromkeys(fixed), *sorted(name for name in measured if name.startswith(phases.PREFIX))]
    found = (declared(name) for name in names if name in measured and name not in known)
    return [one for one in found if one is not None]
