"""What a recorded profile holds: heat of pages over time, popularity, classes, phases; and how two differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiertune.files import InputError
from tiertune.workloads.profile_file import UnreadableProfile, check_file, read_profile

if TYPE_CHECKING:
    import numpy as np

    Counts = np.ndarray[Any, np.dtype[np.float64]]

CLASSES = ("chase", "random", "gather", "update", "stream", "lookup")
"""Access classes in the order of their numbers in profiles."""

HEAT_ROWS = 256
"""Most rows of a heat map; each stands for as many pages side by side."""

PAGE_BYTES = 4096


@dataclass(frozen=True)
class Anatomy:
    """A profile taken apart. `heat` counts lines read: rows in address order, columns are slices."""

    kernel: str
    """The kernel, or the program that was measured."""
    objects: tuple[str, ...]
    pages: tuple[int, ...]
    """4 KiB pages of each object."""
    reads: tuple[int, ...]
    """Lines read of each object."""
    writebacks: tuple[int, ...]
    phases: tuple[tuple[str, int, int], ...]
    """Name, first slice and number of slices of each phase in its turn."""
    ops: int
    classes: Counts
    """Lines read by class and slice."""
    popularity: Counts
    """Lines read of each page over the whole run, in address order."""
    heat: Counts

    def curve(self) -> Counts:
        """Share of all reads that the hottest pages take, from one page to all."""
        import numpy as np

        ordered: Counts = np.cumsum(np.sort(self.popularity)[::-1])
        shares: Counts = ordered / max(float(ordered[-1]), 1.0)
        return shares

    def hottest_share(self, part: float) -> float:
        """Share of the reads that goes to the hottest `part` of the pages (0 to 1)."""
        count = max(1, round(part * len(self.popularity)))
        return float(self.curve()[count - 1])

    def class_shares(self) -> dict[str, float]:
        """Share of the reads by class, classes without any left out."""
        sums = self.classes.sum(axis=1)
        total = max(float(sums.sum()), 1.0)
        return {name: float(value) / total for name, value in zip(CLASSES, sums, strict=True) if value > 0}


def anatomy(columns: Mapping[str, np.ndarray[Any, Any]], metadata: str) -> Anatomy:
    """Takes apart what `read_profile` gives."""
    import numpy as np

    told = json.loads(metadata)
    slices, objects = told["slices"], told["objects"]
    pages = tuple(-(-info["bytes"] // PAGE_BYTES) for info in objects)
    first = np.concatenate([[0], np.cumsum(pages)])
    reads = columns["reads"].astype(np.float64)
    place = first[columns["object"]] + columns["page"]
    total = int(first[-1])
    rows = min(HEAT_ROWS, total)
    heat = np.zeros((rows, len(slices)))
    np.add.at(heat, (place * rows // total, columns["slice"]), reads)
    classes = np.zeros((len(CLASSES), len(slices)))
    np.add.at(classes, (columns["class"], columns["slice"]), reads)
    per_object = [columns["object"] == number for number in range(len(objects))]
    phases: list[tuple[str, int, int]] = []
    for number, info in enumerate(slices):
        if phases and phases[-1][0] == info["phase"]:
            name, start, count = phases[-1]
            phases[-1] = (name, start, count + 1)
        else:
            phases.append((info["phase"], number, 1))
    return Anatomy(
        kernel=told["measured"]["program"] if "measured" in told else told["request"]["kernel"],
        objects=tuple(info["name"] for info in objects),
        pages=pages,
        reads=tuple(int(columns["reads"][rows_of].sum()) for rows_of in per_object),
        writebacks=tuple(int(columns["writebacks"][rows_of].sum()) for rows_of in per_object),
        phases=tuple(phases),
        ops=sum(info["ops"] for info in slices),
        classes=classes,
        popularity=np.bincount(place, weights=reads, minlength=total).astype(np.float64),
        heat=heat,
    )


def read_anatomy(path: Path) -> Anatomy:
    """The profile in a file; raises `InputError` when it is none."""
    check_file(path)
    try:
        return anatomy(*read_profile(path))
    except (UnreadableProfile, KeyError, ValueError) as error:
        raise InputError(f"{path}: this is not a profile ({error})") from error


def distance(first: Anatomy, second: Anatomy) -> float:
    """Part of the reads that lies elsewhere in the second one: 0 alike, 1 nothing in common.

    Pages are compared at equal fractions of the address space, in as many parts as the smaller one has pages,
    at most `HEAT_ROWS`.
    """
    import numpy as np

    parts = min(HEAT_ROWS, len(first.popularity), len(second.popularity))

    def shares(counts: Counts) -> Counts:
        place = np.arange(len(counts)) * parts // len(counts)
        sums: Counts = np.bincount(place, weights=counts, minlength=parts).astype(np.float64)
        shares: Counts = sums / max(float(sums.sum()), 1.0)
        return shares

    return float(np.abs(shares(first.popularity) - shares(second.popularity)).sum() / 2)


def picture(found: Anatomy, path: Path) -> None:
    """Draws heat, popularity, class mix and phases; the format follows the name. Raises `OSError`."""
    import matplotlib

    matplotlib.use("Agg")
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 2))
    heat = figure.add_subplot(grid[0, :])
    shown = heat.imshow(
        np.log10(found.heat + 1), aspect="auto", origin="lower", interpolation="nearest", cmap="inferno"
    )
    figure.colorbar(shown, ax=heat, label="lines read, log10(1 + n)")
    edges = np.cumsum((0, *found.pages)) * found.heat.shape[0] / sum(found.pages)
    heat.set_yticks((edges[:-1] + edges[1:]) / 2 - 0.5, found.objects, fontsize=7)
    for edge in edges[1:-1]:
        heat.axhline(edge - 0.5, color="white", linewidth=0.4)
    for _, start, _ in found.phases[1:]:
        heat.axvline(start - 0.5, color="white", linewidth=0.3, linestyle=":")
    heat.set_title(f"{found.kernel}: pages in address order over slices of work; dotted: phases")
    curve = figure.add_subplot(grid[1, 0])
    share = found.curve()
    curve.plot(np.arange(1, len(share) + 1) / len(share), share)
    curve.plot((0, 1), (0, 1), linewidth=0.6, linestyle="--")
    curve.set(
        xlabel="part of the pages, hottest first", ylabel="part of the reads", xlim=(0, 1), ylim=(0, 1.02)
    )
    mix = figure.add_subplot(grid[1, 1])
    used = [number for number in range(len(CLASSES)) if found.classes[number].sum() > 0]
    total = np.maximum(found.classes.sum(axis=0), 1)
    labels = [CLASSES[number] for number in used]
    mix.stackplot(np.arange(found.classes.shape[1]), found.classes[used] / total, labels=labels)
    mix.set(xlabel="slice", ylabel="part of the reads by class", ylim=(0, 1.02))
    mix.legend(loc="lower right", fontsize=7)
    figure.savefig(path, dpi=110)
