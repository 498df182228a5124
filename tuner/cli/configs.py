"""Configs as people give them: `-k knob=value`, a YAML file, or the system's own native block."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tiertune.adapters.base import Adapter, AdapterError, Config, Value
from tiertune.files import MAX_FILE_BYTES, InputError

YAML_ENDINGS = (".yaml", ".yml", ".json")


def read_config(adapter: Adapter, path: Path | None, settings: Iterable[str]) -> Config:
    """The knobs given in `path` and then in `settings`; of these only what the file says is checked yet.

    A .yaml, .yml or .json file maps knobs to values; any other is read as a native block of the system.
    Raises `InputError` or `AdapterError`.
    """
    config: Config = {}
    if path is not None:
        text = _text(path)
        config = _mapping(adapter, path, text) if path.suffix in YAML_ENDINGS else _block(adapter, path, text)
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f"--knob {setting}: write it as NAME=VALUE, such as -k read_hot_threshold=2")
        config[name.strip()] = _scalar(f"--knob {name.strip()}", value.strip())
    return config


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:  # a device has no end
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise InputError(f"{path}: is larger than {MAX_FILE_BYTES >> 20} MiB, which no config is")
        return content.decode("utf-8").replace("\r\n", "\n")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such config file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not text in UTF-8 (byte {error.start} does not fit)") from None


def _block(adapter: Adapter, path: Path, text: str) -> Config:
    """What a native block sets. What is not of the system is left alone in it, but not all of it."""
    from tiertune.engine import EngineError

    try:
        config = adapter.from_block(text)
        for name, value in config.items():
            if not isinstance(value, (bool, int, float, str)):
                raise AdapterError(f"{name} takes one value, not a list, a mapping or nothing")
            if isinstance(value, float) and not math.isfinite(value):
                raise AdapterError(f"{name}: {value} is not a usable number; write a finite one")
        adapter.resolve(config)
    except (AdapterError, EngineError) as error:
        raise InputError(f"{path}: {error}") from None
    except (OverflowError, ValueError):  # of Python's own limits: no setting comes near them
        raise InputError(f"{path}: holds a number with more digits than any setting takes") from None
    if not config and adapter.info.knobs and text.strip():
        other = _system_of(text)
        hint = f"is it of {other}?" if other else f"`tiertune show {adapter.system} --native` prints all"
        raise InputError(f"{path}: holds no setting of {adapter.system}; {hint}")
    return config


def _system_of(text: str) -> str | None:
    """The system that reads most in a native block, None where none reads anything."""
    from tiertune.adapters.registry import ADAPTERS, adapter_for

    read: dict[str, int] = {}
    for system in ADAPTERS:
        with suppress(AdapterError, OverflowError, ValueError):  # of numbers with too many digits
            read[system] = len(adapter_for(system).from_block(text))
    best = max(read, key=lambda system: read[system], default="")
    return best if read.get(best) else None


def _mapping(adapter: Adapter, path: Path, text: str) -> Config:
    from tiertune.document import SyntaxProblem, parse
    from tiertune.engine import EngineError

    try:
        document = parse(text)
    except SyntaxProblem as problem:
        raise InputError(f"{path}:{problem.line}: {problem.sentence}") from None
    data = {} if document.data is None else document.data
    if not isinstance(data, dict):
        raise InputError(f"{path}:1: a config file maps knobs to values, such as read_hot_threshold: 2")
    for name, value in data.items():
        if not isinstance(value, (bool, int, float, str)):
            raise InputError(
                f"{path}:{document.line((name,))}: {name} takes one value, not a list or mapping"
            )
    try:
        adapter.resolve(data)
    except EngineError as error:
        # The engine names the knob, and does not know where it stands.
        line = next((document.line((name,)) for name in data if f"'{name}'" in str(error)), 1)
        raise InputError(f"{path}:{line}: {error}") from None
    return data


def _scalar(where: str, text: str) -> Value:
    from tiertune.document import SyntaxProblem, parse

    try:
        value = parse(text).data
    except SyntaxProblem as problem:
        # There is no key in one value, which the sentence would begin with.
        raise InputError(f"{where}: {problem.sentence.removeprefix(': ')}") from None
    if not isinstance(value, (bool, int, float, str)):
        raise InputError(f"{where}: '{text}' is no value; a knob takes a number, true, false or a word")
    return value
