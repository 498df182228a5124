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
BYTES_PER_4K_PAGE = {"pact": 25.0, "flexmem": 0.0019 * 4096}
"""PACT, section 4.6: 25 bytes; FlexMem, ATC'24, section 8.5: 0.19 % of memory."""


def cost_of_the_daemon(samples: int) -> Section:
    """CPU for a million samples and bytes a page, as ``tierd selfbench`` measures them."""
    tierd = Path(sys.executable).parent / "tierd"
    command = [str(tierd), "selfbench", "--samples", str(samples)]
    costs = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    rows = []
    for cost in costs:
        sampling_s, policy_s = cost["sampling_cpu_s_per_million"], cost["policy_cpu_s_per_million"]
        each = cost["daemon_bytes_per_page"] + cost["policy_bytes_per_page"]
        most = BYTES_PER_4K_PAGE.get(cost["policy"]) if cost["page_bytes"] == 4096 else None
        rows.append(
            [
                f"{cost['policy']}, {cost['page_bytes'] >> 10} KiB pages",
                f"{sampling_s:.3f} s",
                "met" if sampling_s <= RECORD_S_PER_MILLION else "missed",
                f"{policy_s:.3f} s",
                f"{each:.1f} B",
                "" if most is None else f"{most:.1f} B, {'met' if each <= most else 'missed'}",
            ]
        )
    head = ["policy", "sampling", f"at most {RECORD_S_PER_MILLION:g} s", "policy", "a page", "published"]
    return f"The live daemon: CPU for a million samples of {samples:,}, memory a page", head, rows
