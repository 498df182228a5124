"""`profile`: what a recorded profile holds, as text or as a picture, and how two differ."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tiertune.tuner.cli.failures import guarded
from tiertune.tuner.cli.options import Json, chosen, words_of

profile = typer.Typer(
    no_args_is_help=True,
    help="Look at profiles (show, heatmap, diff), or import them.\n\n"
    "\b\n"
    "Examples:\n"
    "  tiertune profile show redis.parquet\n"
    "  tiertune profile import --from perf-script samples.txt -o redis.parquet",
)

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
    from tiertune.workloads.profile_file import read_head

    found = read_anatomy(file)
    head, digest = read_head(file)
    told = head.get("measured")
    shares = {f"{part:g}": found.hottest_share(part) for part in HOTTEST}
    if as_json:
        objects = zip(found.objects, found.pages, found.reads, found.writebacks, strict=True)
        print_json(
            {
                "kernel": found.kernel,
                "measured": told,
                "digest": digest,
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
    if told is not None:
        out.print(f"sampler {told['sampler']}: it sees {told['sees']}", markup=False)
        for note in told["notes"]:
            out.print(f"note: {note}", markup=False)


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
    """Compare two profiles: where reads go, by what class.

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


class Format(StrEnum):
    """Files of other tools."""

    PERF_SCRIPT = "perf-script"
    DAMON = "damon"
    MASIM = "masim"


@profile.command("import")
@guarded
def import_file(
    file: Annotated[Path, typer.Argument(help="What the other tool wrote.")],
    source: Annotated[str, typer.Option("--from", help="The tool.", **words_of(Format))],
    out: Annotated[Path, typer.Option("--out", "-o", help="The profile (.parquet); for masim .yaml.")],
    access: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="CLASS[:RANGE]", help="As for `tiertune record`."),
    ] = None,
    stalled: Annotated[
        float, typer.Option(min=0.01, max=0.95, help="For damon: share of its time that waits for memory.")
    ] = 0.5,
    period: Annotated[
        int | None, typer.Option(min=1, help="For perf-script: period of samples that do not say theirs.")
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="For damon: checks of a page in an aggregation.")
    ] = 20,
    threads: Annotated[int, typer.Option(min=1, max=4096, help="For damon: busy threads.")] = 1,
    as_json: Json = False,
) -> None:
    """Make a profile of what another tool recorded.

    perf-script: text of `perf script` with data addresses. damon: regions as
    the tracepoint damon_aggregated or `damo report raw` print them. masim: a
    configuration, which becomes a workload file that our kernel executes.

    \b
    Examples:
      tiertune profile import --from perf-script mem.txt -o mem.parquet
      tiertune profile import --from damon damon.txt -o damon.parquet
      tiertune profile import --from masim stairs.cfg -o stairs.yaml
    """
    from tiertune.files import InputError
    from tiertune.tuner.cli.recording import declaration, finish
    from tiertune.workloads.measured import NothingSeen

    tool = chosen(Format, "--from", source)
    ending = ".yaml" if tool is Format.MASIM else ".parquet"
    if out.suffix != ending:
        raise InputError(f"--out: {out} must end in {ending}")
    if tool is Format.MASIM:
        _import_masim(file, out, as_json)
        return
    declared = [declaration(text) for text in access or []]
    try:
        if tool is Format.PERF_SCRIPT:
            from tiertune.workloads.imports.perf import read_perf

            seen = read_perf(file, period)
        else:
            from tiertune.workloads.imports.damon import read_damon

            seen = read_damon(file, samples, threads)
    except NothingSeen as error:
        raise InputError(str(error)) from error
    finish(seen, declared, stalled, out, as_json)


def _import_masim(file: Path, out: Path, as_json: bool) -> None:
    import yaml

    from tiertune.files import InputError
    from tiertune.tuner.report.files import write_whole
    from tiertune.workloads.imports.masim import read_masim

    document = read_masim(file)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    try:
        write_whole(out, text)
    except OSError as error:
        raise InputError(
            f"--out: {out} cannot be written ({(error.strerror or str(error)).lower()})"
        ) from error
    if as_json:
        from tiertune.tuner.cli.output import print_json

        told = ("name", "description", "source", "threads")
        print_json({"file": str(out), **{key: document[key] for key in told}})
    else:
        print(out)
