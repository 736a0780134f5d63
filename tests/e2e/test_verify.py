"""`strata verify determinism` on a real model."""
import json
import subprocess

import pytest

from conftest import require_case, require_model


@pytest.mark.bounds  # under a sanitizer this takes half an hour
@pytest.mark.timeout(1200)  # minutes on a busy machine
def test_determinism(strata):
    done = subprocess.run([strata, "verify", "determinism", require_model("smollm2-135m"), "--json"], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, (done.stdout, done.stderr)
    report = json.loads(done.stdout)
    assert report["equal"] is True and len(report["config_hash"]) == 64
    assert all(row["equal"] and row["tokens"] >= 200 for row in report["rows"])
    rows = {}
    for row in report["rows"]:
        rows.setdefault(row["what"], []).append(row)
    assert set(rows) == {"alone", "streamed", "among others", "threads", "prompts in chunks", "page sizes", "prefix cache", "preempted"}
    assert all(row["preemptions"] > 0 for row in rows["preempted"]), "what it names happened"
    assert [row["swaps"] > 0 for row in rows["preempted"]] == [False, False, True]
    assert rows["prefix cache"][-1]["cached_tokens"] > 300


def test_a_context_that_is_too_short(strata):
    done = subprocess.run([strata, "verify", "determinism", require_case("common/chain.gguf")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "256" in done.stderr and "128" in done.stderr
