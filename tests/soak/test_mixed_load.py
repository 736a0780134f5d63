"""Minutes of mixed load with cancellations, bad requests, time-outs and preemptions, computed again and swapped.

Two minutes each; STRATA_MIXED_LOAD_S=1200 makes it twenty:
    STRATA_MIXED_LOAD_S=1200 build/venv/bin/python -m pytest --timeout=3600 tests/soak/test_mixed_load.py
"""
import os

import pytest

from conftest import require_model
from mixed_load import MODEL, check_mixed_load
from serving import serving

FLAGS = ("--context", 512, "--kv-memory", "13MiB", "--batch-tokens", 128, "--max-running", 8, "--queue", 4,
         "--itl-target-ms", 60_000)  # let in at once what fits


@pytest.mark.parametrize("swap_space", ["0", "256MiB"])
def test_nothing_is_lost_or_kept(strata, swap_space):
    with serving(strata, "--model", f"{MODEL}={require_model(MODEL)}", *FLAGS, "--swap-space", swap_space) as server:
        rise = check_mixed_load(server, warm_up_s=20, seconds=float(os.environ.get("STRATA_MIXED_LOAD_S", "120")))
        assert (rise["strata_swap_preemptions_total"] > 0) == (swap_space != "0")
