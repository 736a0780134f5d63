"""Cases C05, C07, C11 and C19 beside clients that keep a pool of ten pages short: with preemptions, computed again or swapped, and
with prompts out of the prefix cache."""
import concurrent.futures
import random
import threading
import time

import pytest

from api import CHAT, COMPLETIONS, answer, case_json, computed, error, is_idle, metrics, stream, wait_until
from conftest import require_case
from raw_http import Connection, post_bytes
from serving import serving

GREEDY = "alpha beta\U0001F600 gamma delta epsilon"
PAGES = 10          # the longest text of the model's context takes 8
NEIGHBOURS = 5


def page_bytes(strata, model):
    with serving(strata, "--model", model, "--kv-memory", "1MiB", "--max-running", 1024) as server:
        now = metrics(server)
        return (1 << 20) // int(sum(now[f'strata_kv_pages{{state="{state}"}}'] for state in ("used", "cached", "free")))


@pytest.fixture(scope="module", params=["0", "16MiB"], ids=lambda size: f"swap-{size}")
def short_of_pages(strata, request):
    model = f"chain={require_case('common/chain.gguf')}"
    with serving(strata, "--model", model, "--kv-memory", int(page_bytes(strata, model) * (PAGES + 0.5)), "--max-running", 8,
                 "--batch-tokens", 32, "--swap-space", request.param) as server:
        yield server


@pytest.fixture
def neighbours(short_of_pages):
    """Clients that generate to the end of the context, over and over, while a test runs; at its end they have been preempted."""
    before = metrics(short_of_pages)
    stop = threading.Event()

    def client(number):
        randomness = random.Random(number)
        while not stop.is_set():
            prompt = [1, 270] + [259 + randomness.randrange(3)] * randomness.randrange(40) + [270]
            got = answer(short_of_pages, COMPLETIONS, {"model": "chain", "prompt": prompt, "max_tokens": 80, "temperature": 0})
            assert got["choices"][0]["text"] == " ping pong" * 40 and got["usage"]["completion_tokens"] == 80

    with concurrent.futures.ThreadPoolExecutor(NEIGHBOURS) as pool:
        running = [pool.submit(client, number) for number in range(NEIGHBOURS)]
        wait_until(lambda: metrics(short_of_pages)["strata_preemptions_total"] > before["strata_preemptions_total"], 60, "a preemption")
        yield
        stop.set()
        for done in running:
            done.result()
    after = metrics(short_of_pages)
    assert after['strata_prefix_tokens_total{result="hit"}'] > before['strata_prefix_tokens_total{result="hit"}']
    wait_until(lambda: is_idle(short_of_pages))
    assert metrics(short_of_pages)["strata_swap_used_bytes"] == 0


@pytest.mark.usefixtures("neighbours")
class TestBesideNeighbours:
    def test_usage(self, short_of_pages):
        """C05: what was preempted on the way counts once."""
        for _ in range(5):
            whole = answer(short_of_pages, CHAT, case_json("C05/whole.json"))
            streamed = stream(short_of_pages, CHAT, case_json("C05/stream-usage.json"))
            assert whole["choices"][0]["message"]["content"] == streamed.text() == GREEDY
            assert [computed(usage) for usage in streamed.usages()] == [computed(whole["usage"])]
            assert whole["usage"]["prompt_tokens"] == 21 and whole["usage"]["completion_tokens"] == 12
            three = answer(short_of_pages, CHAT, case_json("C05/n3.json"))
            assert three["usage"]["prompt_tokens"] == 6 and three["usage"]["completion_tokens"] == 36
            assert {choice["message"]["content"] for choice in three["choices"]} == {GREEDY}

    def test_seeds(self, short_of_pages, chain):
        """C07: seed 7 gives what it gives alone on another server; with n the same texts every time."""
        dice = {**case_json("C07/dice.json"), "seed": 7, "max_tokens": 90}
        alone = answer(chain, COMPLETIONS, dice)["choices"][0]["text"]
        four = [choice["text"] for choice in answer(chain, COMPLETIONS, {**dice, "n": 4})["choices"]]
        for _ in range(5):
            assert answer(short_of_pages, COMPLETIONS, dice)["choices"][0]["text"] == alone
            assert stream(short_of_pages, COMPLETIONS, dice).text() == alone
            assert [choice["text"] for choice in answer(short_of_pages, COMPLETIONS, {**dice, "n": 4})["choices"]] == four

    def test_what_does_not_fit(self, short_of_pages):
        """C11: refused at once and never cut, however short pages are; what fits has the whole room."""
        for letters in (200, 100_000):
            body = case_json("C11/body.json")
            body["messages"] = [{"role": "user", "content": "a" * letters}]
            assert error(short_of_pages, CHAT, body, 400)["code"] == "context_length_exceeded"
        prompt = "a" * 100
        got = answer(short_of_pages, COMPLETIONS, {"model": "chain", "prompt": prompt, "max_tokens": 100, "temperature": 0, "ignore_eos": True})
        assert got["usage"]["prompt_tokens"] == 101 and got["usage"]["completion_tokens"] == 27
        assert got["choices"][0]["finish_reason"] == "length"

    def test_clients_that_leave(self, short_of_pages):
        """C19: each one counts as aborted, and an answer afterwards is right and comes soon."""
        before = metrics(short_of_pages)['strata_requests_total{outcome="aborted"}']
        randomness = random.Random(1)
        body = {"model": "chain", "prompt": [1, 270], "max_tokens": 126, "temperature": 0}
        for number in range(20):
            with Connection(short_of_pages) as connection:
                connection.send(post_bytes(COMPLETIONS, {**body, "stream": number % 2 == 0, "n": 4}))
                time.sleep(randomness.random() * 0.005)
        wait_until(lambda: metrics(short_of_pages)['strata_requests_total{outcome="aborted"}'] >= before + 10, 10)
        assert answer(short_of_pages, CHAT, case_json("C05/whole.json"))["choices"][0]["message"]["content"] == GREEDY
