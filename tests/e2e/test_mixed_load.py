"""A short form of the load of tests/soak/test_mixed_load.py, in a pool for two or three of its dozen clients, with a swap space; and a
thousand clients at once."""
import json
import subprocess

import pytest

from api import is_idle, metrics, wait_until
from conftest import require_case, require_model
from mixed_load import MODEL, check_mixed_load
from serving import serving

FLAGS = ("--context", 512, "--kv-memory", "13MiB", "--batch-tokens", 128, "--max-running", 8, "--queue", 4,
         "--itl-target-ms", 60_000)  # let in at once what fits


@pytest.mark.bounds
@pytest.mark.timeout(300)
def test_nothing_is_lost_or_kept(strata):
    with serving(strata, "--model", f"{MODEL}={require_model(MODEL)}", *FLAGS, "--swap-space", "256MiB") as server:
        check_mixed_load(server, warm_up_s=6, seconds=14)


@pytest.mark.bounds
def test_a_thousand_clients_at_once(strata):
    """Every one is answered 200 or 429, none is lost; nothing of a request stays when they come again and again."""
    clients = 1000
    with serving(strata, "--model", f"chain={require_case('common/chain-long.gguf')}", "--queue", 256, "--kv-memory", "64MiB") as server:

        def burst():
            done = subprocess.run([strata, "bench", "serve", server.url, "--model", "chain", "--clients", str(clients), "--requests", str(clients),
                                   "--prompt", "8", "--output", "40", "--json"], capture_output=True, text=True, timeout=200)
            assert done.returncode == 0, done.stderr
            wait_until(lambda: is_idle(server))
            return json.loads(done.stdout)["summary"]

        # Memory grows a little for some twenty-five bursts and is flat from there on (forty more were looked at).
        for _ in range(3):
            burst()
        resident, bursts = server.memory_bytes(), 12
        for _ in range(bursts):
            before = metrics(server)
            summary = burst()
            after = metrics(server)
        refused = summary["errors"].get("429", 0)
        assert summary["completed"] + refused == summary["calls"] == clients, summary["errors"]
        for outcome, count in (("completed", summary["completed"]), ("overloaded", refused)):
            name = f'strata_requests_total{{outcome="{outcome}"}}'
            assert after[name] - before[name] == count
        assert after["strata_request_refusal_seconds_count"] - before["strata_request_refusal_seconds_count"] == refused
        assert server.memory_bytes() - resident <= bursts * clients * 1400  # bytes a request
