"""`profile`: what a recorded profile holds, as text or as a picture, and how two differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiertune.tuner.cli.failures import guarded
from tiertune.tuner.cli.options import Json

profile = typer.Typer(no_args_is_help=True, help="Look at recorded profiles: show, heatmap, diff.")

File = Annotated[Path, typer.Argument(help="A profile: a Parquet file under results/profiles.")]

HOTTEST = (0.01, 0.1, 0.333)
FORMATS = (".png", ".svg", ".pdf")


@profile.command()
@guarded
def show(file: File, as_json: Json = False) -> None:
    """Show objects, phases, classes and how popular pages are.

    \b
    Example:
      tiertune profile show results/profiles/gups-*.parquet
    """
    from tiertune.tuner.cli.output import console, print_json
    from tiertune.tuner.report.numbers import quantity
    from tiertune.workloads.anatomy import PAGE_BYTES, read_anatomy

    found = read_anatomy(file)
    shares = {f"{part:g}": found.hottest_share(part) for part in HOTTEST}
    if as_json:
        objects = zip(found.objects, found.pages, found.reads, found.writebacks, strict=True)
        print_json(
            {
                "kernel": found.kernel,
                "ops": found.ops,
                "objects": [
                    {"name": name, "pages": pages, "reads": reads, "writebacks": writebacks}
                    for name, pages, reads, writebacks in objects
                ],
                "phases": [{"name": name, "slice": start, "slices": n} for name, start, n in found.phases],
                "class_shares": found.class_shares(),
                "hottest_shares": shares,
            }
        )
        return
    out = console()
    out.print(f"{found.kernel}: {found.ops} operations in {found.classes.shape[1]} slices", markup=False)
    total = max(sum(found.reads), 1)
    for name, pages, reads, writebacks in zip(
        found.objects, found.pages, found.reads, found.writebacks, strict=True
    ):
        size = quantity(pages * PAGE_BYTES, "bytes")
        line = f"object {name}: {size}, {reads / total:.1%} of the reads, {writebacks} lines written back"
        out.print(line, markup=False)
    names = list(dict.fromkeys(name for name, _, _ in found.phases))
    out.print(f"phases: {', '.join(names)}", markup=False)
    mix = ", ".join(f"{name} {share:.1%}" for name, share in found.class_shares().items())
    out.print(f"reads by class: {mix}", markup=False)
    hottest = ", ".join(f"{float(part):.3g} of them {share:.1%}" for part, share in shares.items())
    out.print(f"reads of the hottest pages: {hottest}", markup=False)


@profile.command()
@guarded
def heatmap(
    file: File,
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture: .png, .svg or .pdf.")] = Path(
        "heat.png"
    ),
) -> None:
    """Draw heat over time, popularity, class mix and phases.

    \b
    Example:
      tiertune profile heatmap results/profiles/npb-lu-*.parquet -o lu.png
    """
    from tiertune.files import InputError
    from tiertune.workloads.anatomy import picture, read_anatomy

    if out.suffix not in FORMATS:
        raise InputError(f"--out: {out} must end in one of {', '.join(FORMATS)}")
    found = read_anatomy(file)
    try:
        picture(found, out)
    except OSError as error:
        raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error
    print(out)


@profile.command()
@guarded
def diff(first: File, second: File, as_json: Json = False) -> None:
    """Compare two profiles: where reads go, by what class, how concentrated.

    \b
    Example:
      tiertune profile diff results/profiles/gups-1.parquet results/profiles/gups-2.parquet
    """
    from tiertune.tuner.cli.output import console, print_json
    from tiertune.workloads.anatomy import distance, read_anatomy

    sides = (read_anatomy(first), read_anatomy(second))
    classes = [side.class_shares() for side in sides]
    names = sorted(set(classes[0]) | set(classes[1]))
    elsewhere = distance(*sides)
    pairs = {name: [shares.get(name, 0.0) for shares in classes] for name in names}
    hottest = {f"{part:g}": [side.hottest_share(part) for side in sides] for part in HOTTEST}
    if as_json:
        print_json({"reads_elsewhere": elsewhere, "class_shares": pairs, "hottest_shares": hottest})
        return
    out = console()
    out.print(f"reads that lie elsewhere in the address space: {elsewhere:.1%}", markup=False)
    for name, (one, other) in pairs.items():
        out.print(f"class {name}: {one:.1%} and {other:.1%} of the reads", markup=False)
    for part, (one, other) in hottest.items():
        out.print(
            f"hottest {float(part):.3g} of the pages: {one:.1%} and {other:.1%} of the reads", markup=False
        )
