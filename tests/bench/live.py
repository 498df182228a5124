"""What the live daemon itself costs, beside what is known of the systems that its policies come from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.bench.trials import Section

RECORD_S_PER_MILLION = 0.2
"""A sampling thread's CPU for a million records: the lower end of what handling one by perf takes, 0.2 to
0.5 us (our judgement; papers give shares of a core)."""
SHARE_OF_MEMORY = {"pact": 25 / 4096, "flexmem": 0.0019}
"""PACT, section 4.6: 25 bytes a page of 4 KiB; FlexMem, ATC'24, section 8.5: 0.19 % for its lists of pages,
beside which stands all that daemon and policy take."""


def cost_of_the_daemon(samples: int) -> Section:
    """CPU for a million samples and bytes a page, as ``tierd selfbench`` measures them."""
    tierd = Path(sys.executable).parent / "tierd"
    command = [str(tierd), "selfbench", "--samples", str(samples)]
    costs = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    rows = []
    for cost in costs:
        sampling_s, policy_s = cost["sampling_cpu_s_per_million"], cost["policy_cpu_s_per_million"]
        share = cost["resident_bytes_per_page"] / cost["page_bytes"]
        most = SHARE_OF_MEMORY.get(cost["policy"])
        rows.append(
            [
                f"{cost['policy']}, {cost['page_bytes'] >> 10} KiB pages",
                f"{sampling_s:.3f} s",
                "met" if sampling_s <= RECORD_S_PER_MILLION else "missed",
                f"{policy_s:.3f} s",
                f"{cost['resident_bytes_per_page']:.1f} B",
                f"{share:.3%}",
                "" if most is None else f"{most:.2%}, {'met' if share <= most else 'missed'}",
            ]
        )
    limit = f"at most {RECORD_S_PER_MILLION:g} s"
    head = ["policy", "sampling", limit, "policy", "a page", "of memory", "published"]
    return f"The live daemon: CPU for a million samples of {samples:,}, memory a page", head, rows
