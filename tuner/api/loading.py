"""What there is: systems, knobs, metrics, files by name, and profiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

    from tiertune.machines.definition import Machine
    from tiertune.spaces.definition import Space
    from tiertune.tuner.campaign import Campaign
    from tiertune.workloads.anatomy import Anatomy
    from tiertune.workloads.definition import Workload

Kind = Literal["campaigns", "machines", "spaces", "sweeps", "workloads"]


def names(kind: Kind) -> list[str]:
    """Names of the files of a kind: yours in `./campaigns` and so on, and those that come with tiertune."""
    from tiertune import files
    from tiertune.nearest import nearest

    if kind not in files.KINDS:
        raise files.InputError(f"there are no '{kind}'; did you mean '{nearest(kind, files.KINDS)}'?")
    return files.names(kind)


def systems() -> pd.DataFrame:
    """All tiering systems: name, summary, signal, source, how many knobs and how many of them are tuned."""
    import pandas as pd

    from tiertune import engine

    return pd.DataFrame(
        [
            {
                "system": one.name,
                "summary": one.summary,
                "signal": one.signal,
                "knobs": len(one.knobs),
                "tuned_knobs": sum(knob.tunable for knob in one.knobs),
                "source": one.source,
            }
            for one in engine.systems()
        ]
    ).set_index("system")


def knobs(system: str) -> pd.DataFrame:
    """The knobs of a system as it declares them; raises `EngineError` with the nearest system."""
    import pandas as pd

    from tiertune import engine

    return pd.DataFrame([vars(knob) for knob in engine.system(system).knobs]).set_index("name")


def metrics() -> pd.DataFrame:
    """The metrics of a run: unit, direction that is better, meaning."""
    import pandas as pd

    from tiertune import engine

    return pd.DataFrame([vars(metric) for metric in engine.metrics()]).set_index("name")


def load_campaign(name_or_path: str | Path) -> Campaign:
    """A campaign by name or file; raises `InputError` with every mistake in it."""
    from tiertune.tuner.campaign import load_campaign

    return load_campaign(str(name_or_path))


def load_workload(name_or_path: str | Path) -> Workload:
    """A workload by name or file, or a measured profile; raises `InputError`."""
    from tiertune.workloads.definition import load_workload

    return load_workload(str(name_or_path))


def load_machine(name_or_path: str | Path) -> Machine:
    """A modelled machine by name or file; raises `InputError`."""
    from tiertune.machines.definition import load_machine

    return load_machine(str(name_or_path))


def load_space(name_or_path: str | Path) -> Space:
    """A search space by name or file, checked against what its system declares; raises `InputError`."""
    from tiertune.spaces.definition import load_space

    return load_space(str(name_or_path))


@dataclass(frozen=True)
class Profile:
    """What a recorded profile holds."""

    path: Path
    anatomy: Anatomy = field(repr=False)

    @property
    def heat(self) -> pd.DataFrame:
        """Lines read, by address (rows, as fractions of the address space) and slice of the run (columns)."""
        import pandas as pd

        counts = self.anatomy.heat
        frame = pd.DataFrame(counts)
        frame.index = pd.Index([(row + 0.5) / len(counts) for row in range(len(counts))], name="address")
        frame.columns.name = "slice"
        return frame

    @property
    def objects(self) -> pd.DataFrame:
        """A row for each object, in address order: 4 KiB pages, lines read and written back."""
        import pandas as pd

        found = self.anatomy
        columns = {"pages": found.pages, "reads": found.reads, "writebacks": found.writebacks}
        return pd.DataFrame(columns, index=pd.Index(found.objects, name="object"))

    @property
    def phases(self) -> pd.DataFrame:
        """A row for each phase in its turn: name, first slice, number of slices."""
        import pandas as pd

        return pd.DataFrame(self.anatomy.phases, columns=["phase", "first_slice", "slices"])

    @property
    def popularity(self) -> pd.Series[float]:
        """Share of all reads that go to the hottest pages, by how many of them (a share as well)."""
        import pandas as pd

        curve = self.anatomy.curve()
        index = pd.Index([(n + 1) / len(curve) for n in range(len(curve))], name="hottest_share_of_pages")
        return pd.Series(curve, index=index, name="share_of_reads")

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p><b>{escape(self.anatomy.kernel)}</b></p>{self.objects.to_html()}"


def load_profile(path: str | Path) -> Profile:
    """The profile in a Parquet file; raises `InputError` where it is none."""
    from tiertune.files import InputError
    from tiertune.workloads.anatomy import read_anatomy

    if not Path(path).is_file():
        raise InputError(f"{path}: there is no such file; `record` or `tiertune record` makes a profile")
    return Profile(Path(path), read_anatomy(Path(path)))


def record(
    workload: str | Path,
    machine: str | Path,
    *,
    threads: int | None = None,
    results: str | Path = "results",
    notify: Callable[[str], None] | None = None,
) -> Profile:
    """The profile that evaluations of `workload` on `machine` are made from, recorded where it is not kept
    yet.

    Raises `InputError`, also for workloads that are streams: there is nothing to record.
    """
    from tiertune.files import InputError
    from tiertune.machines.definition import load_machine
    from tiertune.tuner.api import limits
    from tiertune.workloads.definition import load_workload
    from tiertune.workloads.profile import profile_for, profile_path, record_request

    if threads is not None:
        limits.check("threads", threads, limits.THREADS)
    definition, model = load_workload(str(workload)), load_machine(str(machine))
    if definition.sim.record is None:
        raise InputError(
            f"workload {definition.name} is not recorded; load a profile's file with load_profile"
        )
    folder = Path(results) / "profiles"
    profile_for(definition, model, threads, folder, notify or (lambda text: None))
    request = record_request(definition, model, threads or definition.threads)
    return load_profile(profile_path(folder, definition.name, request))
