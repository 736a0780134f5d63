"""A server under load: 2,000 requests one after the other and 64 at once on the default model; nothing fails, memory stays flat."""
import concurrent.futures
import random

import pytest

from api import COMPLETIONS, CHAT, answer, is_idle, metrics, stream, wait_until
from serving import serving

MODEL = "smollm2-135m"
WORDS = "a llama walked over the hill and saw nothing but grass under the cold sun".split()


@pytest.fixture
def server(strata, smollm2_file):
    """A pool that the warm-up fills: cached prompts keep pages until others need them, which is no growth to be found here."""
    with serving(strata, "--model", f"{MODEL}={smollm2_file}", "--kv-memory", "64MiB") as started:
        yield started


def one(server, number):
    randomness = random.Random(number)
    prompt = " ".join(randomness.choices(WORDS, k=randomness.randint(1, 30)))
    body = {"model": MODEL, "max_tokens": randomness.randint(1, 6), "seed": number, "stream_options": {"include_usage": True}}
    if number % 2:
        usage = stream(server, COMPLETIONS, {**body, "prompt": prompt}).usages()[0]
    else:
        del body["stream_options"]
        usage = answer(server, CHAT, {**body, "messages": [{"role": "user", "content": prompt}]})["usage"]
    assert 1 <= usage["completion_tokens"] <= body["max_tokens"]


def test_memory_is_flat_and_nothing_fails(server):
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        list(pool.map(lambda number: one(server, number), range(10_000, 10_200)))
    for number in range(10_200, 10_300):
        one(server, number)
    before = metrics(server)
    resident = server.memory_bytes()
    for number in range(2000):
        one(server, number)
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        list(pool.map(lambda number: one(server, number), range(64)))
    assert server.memory_bytes() < resident * 1.05
    wait_until(lambda: is_idle(server))
    after = metrics(server)
    rise = {name: after[name] - before[name] for name in after if name.startswith("strata_requests_total") and after[name] != before[name]}
    assert rise == {'strata_requests_total{outcome="completed"}': 2064}
