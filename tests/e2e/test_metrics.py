"""/metrics as Prometheus wants them, and what they count."""
import shutil
import subprocess

import httpx

from api import CHAT, COMPLETIONS, EMBEDDINGS, answer, error, metrics, stream
from conftest import missing

ASK = {"model": "chain", "prompt": [1, 262], "temperature": 0}


def test_promtool_is_content(chain):
    if not shutil.which("promtool"):
        missing("promtool (scripts/install-deps)")
    answer(chain, COMPLETIONS, ASK)
    response = httpx.get(chain.url + "/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    done = subprocess.run(["promtool", "check", "metrics"], input=response.content, capture_output=True)
    assert done.returncode == 0 and not done.stdout and not done.stderr, (done.stdout, done.stderr)


def test_names_and_labels(chain):
    names = set(metrics(chain))
    for outcome in ("completed", "aborted", "timeout", "rejected", "overloaded", "failed"):
        assert f'strata_requests_total{{outcome="{outcome}"}}' in names
    for name in ('strata_tokens_total{direction="in"}', 'strata_tokens_total{direction="out"}', "strata_requests_running", "strata_requests_waiting",
                 'strata_kv_pages{state="used"}', 'strata_kv_pages{state="free"}', 'strata_kv_pages{state="cached"}',
                 "strata_request_queue_seconds_count", "strata_request_ttft_seconds_count", "strata_request_inter_token_seconds_count"):
        assert name in names, name
    assert any(name.startswith("strata_build_info{") and 'isa="' in name and 'version="' in name for name in names)


def test_what_is_counted(chain):
    before = metrics(chain)
    usage = stream(chain, COMPLETIONS, {**ASK, "stream_options": {"include_usage": True}}).usages()[0]
    error(chain, CHAT, {"model": "chain"}, 400)
    error(chain, CHAT, {"model": "other", "messages": [{"role": "user", "content": "a"}]}, 404)
    answer(chain, EMBEDDINGS, {"model": "chain", "input": ["a", "b"]})
    after = metrics(chain)

    def rise(name):
        return after[name] - before[name]
    assert rise('strata_requests_total{outcome="completed"}') == 2
    assert rise('strata_requests_total{outcome="rejected"}') == 2
    assert rise('strata_tokens_total{direction="out"}') == usage["completion_tokens"] == 12
    assert rise('strata_tokens_total{direction="in"}') == 2 + 4
    assert rise("strata_request_ttft_seconds_count") == 1
    assert rise("strata_request_inter_token_seconds_count") == 11
    assert after["strata_requests_running"] == after["strata_requests_waiting"] == after['strata_kv_pages{state="used"}'] == 0
