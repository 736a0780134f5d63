"""`strata bench serve` against our own server: what it counts is what the server counted. No speed is asserted."""
import csv
import json
import subprocess
import sys

import pytest

from api import metrics
from conftest import ROOT, require_case, require_data
from serving import serving


@pytest.fixture(scope="module")
def long_chain(strata):
    with serving(strata, "--model", f"chain={require_case('common/chain-long.gguf')}", "--kv-memory", "256MiB") as server:
        yield server


def bench(strata, server, *arguments):
    return subprocess.run([strata, "bench", "serve", server.url, "--model", "chain", *map(str, arguments)], capture_output=True, text=True,
                          timeout=240)


@pytest.mark.parametrize("load", [("--clients", 4), ("--rate", 100)], ids=lambda load: load[0])
def test_closed_loop_and_poisson(strata, long_chain, load, tmp_path):
    before = metrics(long_chain)
    done = bench(strata, long_chain, *load, "--requests", 12, "--prompt", 20, "--output", 9, "--json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    summary = report["summary"]
    assert summary["calls"] == summary["completed"] == 12 and summary["errors"] == {} and summary["output_tokens"] == 12 * 9
    after = metrics(long_chain)
    for name, key in (('strata_tokens_total{direction="in"}', "prompt_tokens"), ('strata_tokens_total{direction="out"}', "output_tokens")):
        assert after[name] - before[name] == summary[key]
    assert after['strata_requests_total{outcome="completed"}'] - before['strata_requests_total{outcome="completed"}'] == 12
    assert json.loads((tmp_path / "out" / "load_test_results.json").read_text()) == report
    with open(tmp_path / "out" / "calls.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12 and all(row["status"] == "200" and row["output_tokens"] == "9" for row in rows)
    with open(tmp_path / "out" / "engine_steps.csv", encoding="utf-8", newline="") as file:
        steps = list(csv.DictReader(file))
    assert sum(int(step["prompt_rows"]) + int(step["token_rows"]) for step in steps) == summary["prompt_tokens"] - summary["cached_tokens"] + \
        summary["output_tokens"] - 12, "every row but those of the cache, and the last token of each answer is never an input"
    for picture in ("latency_cdf.png", "throughput.png", "batch_timeline.png", "memory_efficiency.png", "engine_load.png", "throughput_comparison.png"):
        assert (tmp_path / "out" / picture).read_bytes().startswith(b"\x89PNG")


def test_runs_are_compared(strata, long_chain, tmp_path):
    load = ("--clients", 2, "--requests", 4, "--prompt", 5, "--output", 3, "--quiet")
    assert bench(strata, long_chain, *load, "--out", tmp_path / "a").returncode == 0
    done = bench(strata, long_chain, *load, "--out", tmp_path / "b", "--name", "again", "--compare", f"first={tmp_path / 'a'}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "b" / "throughput_comparison.png").read_bytes().startswith(b"\x89PNG")
    assert bench(strata, long_chain, *load, "--compare", "a=/nowhere").returncode == 3
    assert bench(strata, long_chain, *load, "--compare", "nothing").returncode == 2


def test_a_trace(strata, long_chain):
    trace = require_data("azure-llm-2023-conv.csv")
    done = bench(strata, long_chain, "--trace", trace, "--requests", 20, "--time-scale", 100, "--length-scale", 20, "--most-output", 10, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)["summary"]
    assert summary["completed"] == 20 and summary["output_tokens"] <= 200
    assert 0 < summary["whole_s"]["p50"] <= summary["whole_s"]["p99"] <= summary["whole_s"]["max"]


def test_errors_are_counted_and_wrong_usage_is_told(strata, long_chain, tmp_path):
    done = subprocess.run([strata, "bench", "serve", long_chain.url, "--model", "other", "--clients", "1", "--requests", "2", "--json"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and json.loads(done.stdout)["summary"]["errors"] == {"404": 2}
    assert bench(strata, long_chain).returncode == 2
    bad = tmp_path / "bad.csv"
    bad.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n")
    done = bench(strata, long_chain, "--trace", bad)
    assert done.returncode == 3 and "bad.csv:2" in done.stderr


def test_the_recipe_of_a_load(strata, tmp_path):
    """bench/load.py, one row with few requests: every status is counted, refusals are timed."""
    out = tmp_path / "thousand.json"
    done = subprocess.run([sys.executable, ROOT / "bench" / "load.py", "thousand", require_case("common/chain-long.gguf"), "--strata", strata,
                           "--requests", "60", "--kv-memory", "64MiB", "--out", out], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    summary = report["rounds"][0]["strata"]
    assert report["medians"]["strata"] == summary["completed"] and summary["completed"] + sum(summary["errors"].values()) == 60
    assert set(summary["errors"]) <= {"429"} and len(summary["memory_mib"]) == 2
    assert 0 <= summary["engine"]["wasted_share"] < 1
