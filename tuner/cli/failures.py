"""How commands end when something is wrong: a sentence, an exit code, no traceback for a user's mistake."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ParamSpec

import typer

from tiertune.memory_limit import TooLittleMemory

BUG, BAD_INPUT, UNFIT_HOST, REGRESSION, INCOMPLETE, STOPPED = 1, 2, 3, 4, 5, 130
EXIT_CODES = {
    0: "done",
    BUG: "a bug of ours; the sentence names the file that holds the traceback",
    BAD_INPUT: "bad input: the sentence names file, key, value and the nearest valid choice",
    UNFIT_HOST: "this host lacks something: the sentence says what would mend it, `tiertune doctor` more",
    REGRESSION: "`tiertune nightly` only: an alarm was raised",
    INCOMPLETE: "`tiertune nightly`: not all that was due was measured; `tiertune gallery --check`: some is"
    " stale",
    STOPPED: "stopped by Ctrl-C or a signal; `tiertune resume` goes on",
}
"""What each exit code means, in the words of the manual."""

Parameters = ParamSpec("Parameters")


class Unfit(Exception):
    """This host cannot do what was asked; the sentence says what would mend it (exit code 3)."""


def guarded(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """`command` with the documented exit codes: 1 our bug, 2 bad input, 3 unfit host, 130 stopped."""

    @functools.wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            _check_figures(kwargs)
            command(*args, **kwargs)
            sys.stdout.flush()  # here, where it is told, and not at exit
        except (typer.Exit, typer.BadParameter):
            raise
        except KeyboardInterrupt as stop:
            say(str(stop) or "stopped; nothing is left running")
            raise typer.Exit(STOPPED) from None
        except BrokenPipeError:
            # The reader (`head`, a closed pager) has seen enough.
            _drop_output()
            raise typer.Exit(0) from None
        except BaseException as error:
            if not isinstance(error, Exception) and not _is_panic(error):
                raise
            raise typer.Exit(told(error, kwargs)) from None

    return run


def _check_figures(options: Mapping[str, object]) -> None:
    """Raises InputError where figures, which are drawn last of all, could not be written."""
    figures = options.get("figures")
    if isinstance(figures, Path):
        from tiertune.tuner.cli.writable import check_folder

        check_folder("--figures", figures)


def told(error: BaseException, options: Mapping[str, object]) -> int:
    """Says what is wrong, and returns the exit code; `options` are those of the command."""
    from tiertune.tuner.cli.file_kinds import other_kind

    if os.environ.get("TIERTUNE_DEBUG") == "1":
        traceback.print_exc()
    code = exit_code(error)
    words = other_kind(error) or sentence(error) + _elsewhere(error, options)
    say(words if code != BUG else _bug(error))
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    return code


def _drop_output() -> None:
    """Keeps Python from complaining at exit of what nobody takes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C is behind `error`: native code that it hits reports an error of its own."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, KeyboardInterrupt):
            return True
        link = link.__cause__ or link.__context__
    return False


def stopped_measuring(fresh: bool = False) -> KeyboardInterrupt:
    """What to raise where Ctrl-C ended measurements: they are kept, and --fresh would make them again."""
    again = " without --fresh" if fresh else ""
    return KeyboardInterrupt(f"stopped; what is measured is kept, the same command{again} goes on")


def exit_code(error: BaseException) -> int:
    """The exit code that an error that reached a command stands for."""
    from tiertune.adapters.base import AdapterError
    from tiertune.files import InputError
    from tiertune.tuner.backend import BackendLost, ConfigRejected, HostUnfit
    from tiertune.tuner.disk_trouble import disk_trouble

    if isinstance(error, MemoryError):
        return UNFIT_HOST
    if _engine_missing(error) or isinstance(error, (Unfit, HostUnfit, BackendLost)) or _sampler_unfit(error):
        return UNFIT_HOST
    if isinstance(error, (InputError, ConfigRejected, AdapterError)) or _engine_error(error):
        return BAD_INPUT
    if disk_trouble(error) is not None:
        return UNFIT_HOST
    if isinstance(error, OSError) and error.filename is not None:
        return BAD_INPUT
    return BUG


def sentence(error: BaseException) -> str:
    """What is wrong, in words."""
    from tiertune.tuner.disk_trouble import disk_trouble

    if isinstance(error, MemoryError) and not isinstance(error, TooLittleMemory):
        from tiertune.tuner.memory_need import SMALLER

        return f"memory ran out; {SMALLER}; `tiertune doctor` says how much is free"
    if (trouble := disk_trouble(error)) is not None:
        return trouble
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or str(error)).lower()}"
    return str(error)


def _elsewhere(error: BaseException, options: Mapping[str, object]) -> str:
    """Where else results could go, when it is their folder that nothing can be written to."""
    from tiertune.tuner.disk_trouble import NOT_WRITABLE, disk_trouble

    results = options.get("results")
    if not isinstance(results, Path):
        return ""
    if isinstance(error, OSError):
        refused = error.errno in NOT_WRITABLE and error.filename is not None
        if not refused or not Path(str(error.filename)).resolve().is_relative_to(results.resolve()):
            return ""
    elif disk_trouble(error) is None:  # of SQLite, whose files of ours are all there
        return ""
    return "; --results or TIERTUNE_RESULTS names another folder"


def say(text: str) -> None:
    """On standard error, every line marked as ours."""
    for line in text.splitlines():
        print(f"tiertune: {line}", file=sys.stderr)


def _engine_missing(error: BaseException) -> bool:
    return _engine_error(error) and isinstance(error.__cause__, ImportError)


def _engine_error(error: BaseException) -> bool:
    engine = sys.modules.get("tiertune.engine")
    return engine is not None and isinstance(error, engine.EngineError)


def _sampler_unfit(error: BaseException) -> bool:
    engine = sys.modules.get("tiertune.engine")
    return engine is not None and isinstance(error, engine.SamplerUnfit)


def _is_panic(error: BaseException) -> bool:
    """Whether the engine's Rust code panicked, which is no Exception to Python."""
    return type(error).__module__ == "pyo3_runtime"


def _bug(error: BaseException) -> str:
    """Keeps the traceback in a file and says where it is."""
    name = f"tiertune-bug-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    path = Path(tempfile.gettempdir(), name)
    trace = "".join(traceback.format_exception(error))
    what = f"{type(error).__name__}: {error}"
    try:
        path.write_text(f"command: {' '.join(sys.argv)}\n\n{trace}", encoding="utf-8")
    except OSError as full:
        return f"a bug of ours, sorry: {what} (TIERTUNE_DEBUG=1 shows the traceback; {path}: {full.strerror})"
    return f"a bug of ours, sorry: {what} (traceback in {path}; TIERTUNE_DEBUG=1 shows it)"
