"""A server under load: 2,000 requests one after the other and 64 at once on the default model; nothing fails, memory stays flat."""
import concurrent.futures
import random

from api import COMPLETIONS, CHAT, answer, is_idle, metrics, stream, wait_until

MODEL = "smollm2-135m"
WORDS = "a llama walked over the hill and saw nothing but grass under the cold sun".split()


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


def test_memory_is_flat_and_nothing_fails(smollm2):
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        for _ in range(2):
            list(pool.map(lambda number: one(smollm2, number), range(64)))
    for number in range(100):
        one(smollm2, number)
    before = metrics(smollm2)
    resident = smollm2.memory_bytes()
    for number in range(2000):
        one(smollm2, number)
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        list(pool.map(lambda number: one(smollm2, number), range(64)))
    assert smollm2.memory_bytes() < resident * 1.05
    wait_until(lambda: is_idle(smollm2))
    after = metrics(smollm2)
    rise = {name: after[name] - before[name] for name in after if name.startswith("strata_requests_total") and after[name] != before[name]}
    assert rise == {'strata_requests_total{outcome="completed"}': 2064}
