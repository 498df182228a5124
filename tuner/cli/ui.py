"""`ui`: pages over a results folder."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from tiertune.tuner.cli.failures import guarded
from tiertune.tuner.cli.options import RESULTS, Json, Results

PORT = 8050
MLFLOW_PORT = 5000
TRIES = 200
"""Ports after a taken one that are tried for a free one to name."""


@guarded
def ui(
    results: Results = RESULTS,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port; 0 takes a free one. By default 8050 (--mlflow: 5000)."),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; whoever reaches it sees all.")
    ] = "127.0.0.1",
    mlflow: Annotated[
        bool, typer.Option("--mlflow", help="Print the command that opens MLflow's pages instead.")
    ] = False,
    mlflow_url: Annotated[
        str | None,
        typer.Option("--mlflow-url", metavar="URL", help="Where MLflow's pages are, for links to runs."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look at campaigns in a browser, also while they run.

    Trials, convergence, knobs, memory over time, comparisons, transfer tests
    and nights. Nothing is changed; Ctrl-C ends it.

    \b
    Examples:
      tiertune ui
      tiertune ui --results /srv/results --port 0
      $(tiertune ui --mlflow)
    """
    from tiertune.tuner.cli.failures import say

    if mlflow:
        _print_mlflow(results, MLFLOW_PORT if port is None else port, host, as_json)
        return
    _check(results, mlflow_url)
    _check_packages()
    from tiertune.tuner.explorer.folder import Results as Folder
    from tiertune.tuner.explorer.server import LOOPBACK, make_app, serve

    if host not in LOOPBACK:
        say(
            f"--host {host}: there is no password; whoever reaches this address sees all results, so let only"
            " people who may"
        )
    app = make_app(Folder(results.resolve()), mlflow_url, local=host in LOOPBACK)
    wanted = PORT if port is None else port
    _check_port(host, wanted)
    # Ctrl-C is how it is meant to end.
    with contextlib.suppress(KeyboardInterrupt):
        serve(app, host, wanted, lambda taken: _say_address(host, taken, as_json))


def _check_packages() -> None:
    """Raises Unfit with the command that installs what is missing."""
    from tiertune.tuner.cli.failures import Unfit

    try:
        import dash  # noqa: F401
        import dash_ag_grid  # noqa: F401
    except ImportError as error:
        raise Unfit(
            f"the pages need packages that are not installed ({error}): pip install 'tiertune[ui]'"
        ) from None


def _check(results: Path, mlflow_url: str | None) -> None:
    """Raises InputError for what would only be found out by a reader of the pages."""
    from tiertune.files import InputError

    if not results.is_dir():
        raise InputError(
            f"--results {results}: no such folder; `tiertune demo` makes one, or name an earlier one"
        )
    if mlflow_url is not None and not mlflow_url.startswith(("http://", "https://")):
        raise InputError(
            f"--mlflow-url {mlflow_url}: is no address of pages; the nearest is http://{mlflow_url}"
        )


def _check_port(host: str, port: int) -> None:
    """Raises InputError where nobody can listen there, with the next free port."""
    import errno
    import socket

    from tiertune.files import InputError

    def problem(number: int) -> OSError | None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, number))
                probe.listen(1)
            except OSError as error:
                return error
            except UnicodeError:  # what no name can be is not even looked up
                return socket.gaierror(socket.EAI_NONAME, "name or service not known")
        return None

    found = problem(port)
    if found is None:
        return
    if isinstance(found, socket.gaierror) or found.errno == errno.EADDRNOTAVAIL:
        raise InputError(
            f"--host {host}: nobody can listen there ({(found.strerror or '').lower()});"
            " --host 127.0.0.1 always works"
        )
    if found.errno != errno.EADDRINUSE:
        raise InputError(
            f"--host {host} --port {port}: nobody can listen there ({(found.strerror or '').lower()});"
            " --host 127.0.0.1 --port 0 always works"
        )
    free = next((n for n in range(port + 1, min(port + TRIES, 65536)) if problem(n) is None), 0)
    raise InputError(f"--port {port}: is taken; the next free one is {free}, and --port 0 takes any")


def _say_address(host: str, port: int, as_json: bool) -> None:
    import json
    import sys

    address = f"{_url(host, port)}/"
    if as_json:
        print(json.dumps({"url": address}))
    else:
        print(f"{address}  (Ctrl-C ends it)")
    sys.stdout.flush()


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _print_mlflow(results: Path, port: int, host: str, as_json: bool) -> None:
    """The command that opens MLflow's own pages."""
    import shlex
    import sys

    from tiertune.files import InputError
    from tiertune.tuner.cli.output import print_json

    path = (results / "mlflow.sqlite").resolve()
    if not path.is_file():
        raise InputError(
            f"{path}: no MLflow runs yet; `tiertune demo` or `tiertune tune CAMPAIGN` makes some"
        )
    if port == 0:
        raise InputError(
            f"--port 0: MLflow's pages need a port that links can name; its own is {MLFLOW_PORT}"
        )
    beside = Path(sys.executable).with_name("mlflow")
    command = [
        str(beside) if beside.exists() else "mlflow",
        "server",
        "--backend-store-uri",
        f"sqlite:///{path}",
        "--host",
        host,
        "--port",
        str(port),
    ]
    if as_json:
        print_json({"command": command, "url": _url(host, port)})
    else:
        print(shlex.join(command))
