"""`worker`: this machine runs trials for campaigns elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiertune.tuner.cli.failures import Unfit, guarded, say


@guarded
def worker(
    scheduler: Annotated[str, typer.Argument(help="Address of a Dask scheduler, tcp://HOST:PORT.")],
    cores: Annotated[
        int | None, typer.Option(min=1, help="Simulated trials at a time; absent: one a core.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name in reports; absent: that of the host.")] = None,
    profiles: Annotated[
        Path | None, typer.Option(help="Folder of recorded workloads; absent: ~/.cache/tiertune/profiles.")
    ] = None,
) -> None:
    """Run trials here for campaigns that use the same scheduler.

    Start a scheduler with `dask scheduler --host 127.0.0.1`, workers with this
    command, campaigns with `tiertune tune --scheduler ADDRESS`. Workers may
    come and go: the trial of one that is lost runs again on another. Whoever
    reaches a scheduler can run code on its workers, so keep it on loopback or
    a private network, or set up TLS in Dask's own configuration.

    \b
    Example:
      tiertune worker tcp://127.0.0.1:8786 --cores 2
    """
    import asyncio
    import os
    import platform

    from tiertune.tuner.spread.address import check_address
    from tiertune.tuner.spread.errand import PROFILES

    check_address("SCHEDULER", scheduler)
    if profiles is not None:
        os.environ[PROFILES] = str(profiles.resolve())
    count = cores or len(os.sched_getaffinity(0))
    say(f"looking for the scheduler at {scheduler}")
    try:
        asyncio.run(_serve(scheduler, name or platform.node(), count))
    except (OSError, TimeoutError, ValueError) as error:
        raise Unfit(
            f"no scheduler answers at {scheduler} ({error}); start one with `dask scheduler --host 127.0.0.1`"
        ) from error


async def _serve(scheduler: str, name: str, cores: int) -> None:
    """Works until the scheduler closes or this process is told to end."""
    import tempfile

    from distributed import Nanny
    from distributed.comm.addressing import get_address_host
    from distributed.utils import get_ip

    from tiertune.tuner.cli.output import console
    from tiertune.tuner.spread.address import check_name, greet
    from tiertune.tuner.spread.backend import SIMULATED

    await greet(scheduler)
    await check_name(scheduler, name)
    with tempfile.TemporaryDirectory(prefix="tiertune-worker-") as scratch:
        # Listens only where the scheduler is reached: on loopback for one on this machine.
        nanny = Nanny(
            scheduler,
            nthreads=cores,
            name=name,
            host=get_ip(get_address_host(scheduler)),
            resources={SIMULATED: cores},
            local_directory=scratch,
            dashboard_address=None,
            silence_logs="ERROR",
        )
        async with nanny:
            console(stderr=True).print(
                f"worker {name}: {cores} simulated trials at a time for {scheduler}",
                markup=False,
                soft_wrap=True,
            )
            await nanny.finished()
