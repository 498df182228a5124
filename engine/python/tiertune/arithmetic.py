"""Which of a processor's instructions numpy and BLAS calculate with: those of any processor with AVX2.

With AVX-512 numpy's exp, log and sorts end in other last bits (numpy issue 23523), and a search whose models
differ in one bit goes another way. Both are read while numpy and scipy load, so `settle` is called before.
"""

from __future__ import annotations

import os
import sys
from typing import Final

COMMON: Final = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Haswell",
}
SET: Final = "TIERTUNE_ARITHMETIC"
"""Names what `settle` set, also in processes that inherit it."""


def settle() -> None:
    """Have numpy and BLAS, where they are not loaded yet, calculate as on other processors.

    What the environment says of them already is left alone.
    """
    told = os.environ.keys() & {*COMMON, "NPY_ENABLE_CPU_FEATURES"}
    if "numpy" in sys.modules or told or not _has_avx2():
        return
    os.environ.update(COMMON, **{SET: " ".join(COMMON)})


def restore_environment() -> None:
    """Load what `settle` is about, and leave the environment as tiertune was started with.

    To be called before a program is started whose speed is measured: it is to use what the processor has.
    """
    ours = os.environ.get(SET)
    if ours is not None:
        import scipy.linalg  # noqa: F401 (it and numpy bring a BLAS each)

        for name in (*ours.split(), SET):  # the latter is last, as other threads go by it
            os.environ.pop(name, None)


def arithmetic_facts() -> dict[str, str]:
    """What is calculated with in this process, by numpy's and OpenBLAS' names."""
    import scipy.linalg  # noqa: F401
    from numpy.lib.introspect import opt_func_info
    from threadpoolctl import threadpool_info

    (kinds,) = opt_func_info(func_name="^exp$", signature="^float64$").values()
    (exp,) = kinds.values()
    blas = {entry.get("architecture", "") for entry in threadpool_info() if entry["user_api"] == "blas"}
    return {"numpy": exp["current"], "blas": " ".join(sorted(blas))}


def _has_avx2() -> bool:
    from pathlib import Path

    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as facts:
            return " avx2 " in facts.read(4096)  # of the first processor
    except OSError:
        return False
