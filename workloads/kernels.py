"""What can stand under `sim.record` and `sim.carry` for each kernel, from the engine's own declarations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from tiertune.engine import KernelInfo, ParameterInfo, kernels
from tiertune.fields import Flag, Integer, Number, Size
from tiertune.files import Strict

MAX_SEED = 2**53 - 1
"""Seeds stay exact in readers that hold numbers as doubles."""

THREADS = "threads"
"""The parameter that a workload file gives once, for recording and replay."""

MOST_SIZE = 2**60
MOST_TEXT = 2**20


class KernelRecord(Strict):
    """A kernel and its parameters; the engine says which go together and what fits here."""

    kernel: str = Field(description="name of the kernel")


def kernel(name: str) -> KernelInfo:
    """The kernel called `name`; `KeyError` when there is none."""
    for candidate in kernels():
        if candidate.name == name:
            return candidate
    raise KeyError(name)


def takes_threads(name: str) -> bool:
    """Whether what the kernel records depends on the number of threads."""
    return any(parameter.name == THREADS for parameter in kernel(name).parameters)


def carried(name: str) -> tuple[str, ...]:
    """Parameters of the kernel that a recording can be carried to larger values of."""
    return tuple(parameter.name for parameter in kernel(name).parameters if parameter.carried)


def counted(name: str) -> tuple[str, ...]:
    """Those of `carried` that are no sizes in bytes."""
    return tuple(p.name for p in kernel(name).parameters if p.carried and p.type != "bytes")


def work_parameter(name: str) -> str | None:
    """The parameter of the kernel that makes a run longer and nothing else; None where there is none."""
    return next((parameter.name for parameter in kernel(name).parameters if parameter.work), None)


def loadings() -> dict[str, str]:
    """How graphs get into memory, for all kernels that load one: name and meaning."""
    return {name: meaning for info in kernels() for name, meaning in info.loadings.items()}


def record_model(info: KernelInfo) -> type[KernelRecord]:
    """The model of `sim.record` for one kernel."""
    fields: dict[str, Any] = {"kernel": (one_of(info.name), Field(description="name of the kernel"))}
    for parameter in info.parameters:
        if parameter.name != THREADS:
            default = ... if parameter.default is None else parameter.default
            fields[parameter.name] = (_type(parameter), default)
    title = "".join(part.capitalize() for part in info.name.replace("-", "_").split("_"))
    summary = f"{info.summary[0].upper()}{info.summary[1:]} ({info.source})."
    model = create_model(f"{title}Record", __base__=KernelRecord, __doc__=summary, **fields)
    assert issubclass(model, KernelRecord)
    return model


def carry_fields(known: set[str]) -> dict[str, Any]:
    """Fields of `sim.carry` for carried parameters that are not in `known`."""
    fields: dict[str, Any] = {}
    for info in kernels():
        for parameter in info.parameters:
            if parameter.carried and parameter.name not in known:
                text = Field(description=f"{parameter.meaning}; absent: as recorded")
                plain = Size if parameter.type == "bytes" else Annotated[Integer, Field(ge=1, le=MOST_SIZE)]
                fields.setdefault(parameter.name, (Annotated[plain | None, text], None))
    return fields


def one_of(*words: str) -> Any:
    """The type of a field that takes these words."""
    # A variable, because type checkers take no words that are known only at run time.
    literal: Any = Literal
    return literal[words]


def _type(parameter: ParameterInfo) -> Any:
    shown = parameter.unit not in ("", "bytes")
    text = f"{parameter.meaning} [{parameter.unit}]" if shown else parameter.meaning
    if parameter.type == "word":
        return Annotated[one_of(*parameter.words), Field(description=text)]
    if parameter.type == "flag":
        return Annotated[Flag, Field(description=text)]
    if parameter.type == "bytes":
        return Annotated[Size, Field(description=text)]
    if parameter.type == "text":
        return Annotated[str, Field(description=text, max_length=MOST_TEXT)]
    if parameter.type == "other":
        return Annotated[Any, Field(description=text)]
    least, most = parameter.least or 0, parameter.most or 0
    if parameter.type == "real":
        return Annotated[Number, Field(description=text, ge=least, le=most)]
    return Annotated[Integer, Field(description=text, ge=least, le=min(most, MAX_SEED))]
