"""Queues, priorities, time-outs and memory that runs out, as clients see them."""
import concurrent.futures
import json
import time

import httpx
import pytest

from api import COMPLETIONS, EMBEDDINGS, answer, error, error_of, is_idle, metrics, post, stream, wait_until
from conftest import require_case, require_model
from raw_http import Connection, post_bytes
from serving import serving

MODEL = "smollm2-135m"
ENDLESS = {"model": "chain", "prompt": [1, 270], "max_tokens": 200_000, "temperature": 0}


def gauges(server):
    now = metrics(server)
    return now["strata_requests_running"], now["strata_requests_waiting"]


@pytest.fixture
def one_slot(strata):
    with serving(strata, "--model", f"chain={require_case('common/chain-long.gguf')}", "--max-running", 1, "--queue", 2,
                 "--kv-memory", "1GiB") as server:
        yield server


def open_endless(server, **fields):
    connection = Connection(server)
    connection.send(post_bytes(COMPLETIONS, {**ENDLESS, "stream": True, **fields}))
    return connection


def test_a_full_queue_says_when_to_come_back(one_slot):
    connections = [open_endless(one_slot)]
    wait_until(lambda: gauges(one_slot) == (1, 0))
    connections += [open_endless(one_slot) for _ in range(2)]
    wait_until(lambda: gauges(one_slot) == (1, 2))
    begin = time.monotonic()
    response = post(one_slot, COMPLETIONS, ENDLESS)
    assert time.monotonic() - begin < 1
    assert error_of(response, 429)["code"] == "queue_full"
    assert 1 <= int(response.headers["retry-after"]) <= 60
    assert error(one_slot, EMBEDDINGS, {"model": "chain", "input": "a"}, 429)["code"] == "queue_full"
    for connection in connections:
        connection.socket.close()
    wait_until(lambda: is_idle(one_slot))


def test_time_outs_count_in_the_queue_too(one_slot):
    """Nothing generated: 503 that says not to try again; something: finish_reason timeout."""
    connection = open_endless(one_slot)
    wait_until(lambda: gauges(one_slot)[0] == 1)
    for fields in ({}, {"stream": True}):
        response = post(one_slot, COMPLETIONS, {**ENDLESS, "timeout": 0.2, **fields})
        assert error_of(response, 503)["code"] == "timeout"
        assert response.headers["x-should-retry"] == "false" and "retry-after" not in response.headers
    response = post(one_slot, EMBEDDINGS, {"model": "chain", "input": ["a", "b"], "timeout": 0.2})
    assert error_of(response, 503)["code"] == "timeout" and response.headers["x-should-retry"] == "false"
    connection.socket.close()
    wait_until(lambda: is_idle(one_slot))
    before = metrics(one_slot)['strata_requests_total{outcome="timeout"}']
    begin = time.monotonic()
    got = answer(one_slot, COMPLETIONS, {**ENDLESS, "timeout": 0.5})
    assert got["choices"][0]["finish_reason"] == "timeout" and got["choices"][0]["text"].startswith(" ping pong")
    assert time.monotonic() - begin < 3
    assert stream(one_slot, COMPLETIONS, {**ENDLESS, "timeout": 0.3}).finish_reason() == "timeout"
    assert metrics(one_slot)['strata_requests_total{outcome="timeout"}'] == before + 2


def test_priorities(one_slot):
    """Of two that wait the one with the higher priority goes first; a number and a word alike."""
    connection = open_endless(one_slot)
    wait_until(lambda: gauges(one_slot)[0] == 1)
    ended = []

    def ask(name, priority):
        answer(one_slot, COMPLETIONS, {**ENDLESS, "max_tokens": 500, "priority": priority})
        ended.append(name)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        pool.submit(ask, "low", "low")
        wait_until(lambda: gauges(one_slot)[1] == 1)
        pool.submit(ask, "high", 7)
        wait_until(lambda: gauges(one_slot)[1] == 2)
        connection.socket.close()
    assert ended == ["high", "low"]
    assert error(one_slot, COMPLETIONS, {**ENDLESS, "priority": 101}, 400)["param"] == "priority"


def test_without_priorities_the_field_is_refused(strata):
    with serving(strata, "--model", f"chain={require_case('common/chain.gguf')}", "--policy", "sjf") as server:
        ask = {"model": "chain", "prompt": [1, 262], "temperature": 0}
        assert answer(server, COMPLETIONS, {**ask, "priority": "normal"})["choices"]
        assert error(server, COMPLETIONS, {**ask, "priority": "high"}, 400)["param"] == "priority"


def test_little_memory_is_told(strata):
    with serving(strata, "--model", f"chain={require_case('common/chain.gguf')}", "--memory-floor", "1000000GiB") as server:
        response = post(server, COMPLETIONS, {"model": "chain", "prompt": "a"})
        assert error_of(response, 503)["code"] == "memory_low" and int(response.headers["retry-after"]) >= 1
        assert httpx.get(server.url + "/health/ready").status_code == 200, "load does not make it unready"


def long_request(number):
    words = f"Tale {number}: the miller, his {number + 3} sons and the cat that spoke of rain. "
    return {"model": MODEL, "prompt": words * (4 + number % 3), "seed": number, "temperature": 0.8, "max_tokens": 60 + 10 * (number % 3),
            "frequency_penalty": 0.5 if number % 2 else 0, "logprobs": 3, "ignore_eos": True, "n": 2 if number == 3 else 1}


def essence(body):
    return json.dumps([body["choices"], body["usage"]["completion_tokens"], body["usage"]["prompt_tokens"]])


@pytest.fixture(scope="module")
def alone(smollm2):
    """What 8 long requests are answered one after the other."""
    return [essence(answer(smollm2, COMPLETIONS, long_request(number))) for number in range(8)]


@pytest.mark.parametrize("flags", [["--prefix-cache", "on"], ["--prefix-cache", "off"], ["--prefix-cache", "off", "--swap-space", "256MiB"]],
                         ids=["found", "computed", "swapped"])
def test_preempted_answers_are_as_if_nothing_happened(strata, alone, flags):
    """In a pool for about 3 of the 8: text, logprobs, usage, penalties and seeds as alone (R055-R058)."""
    with serving(strata, "--model", f"{MODEL}={require_model(MODEL)}", "--context", 512, "--kv-memory", "24MiB", "--batch-tokens", 128,
                 "--itl-target-ms", 60_000, *flags) as server:  # let in at once what fits
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda number: essence(answer(server, COMPLETIONS, long_request(number))), range(8)))
        after = metrics(server)
        assert after["strata_preemptions_total"] > 0, "the pool was not short"
        assert after["strata_preemptions_total"] <= 3 * 9, "bounded for each sequence"
        assert (after["strata_swap_preemptions_total"] > 0) == ("--swap-space" in flags)
        assert (after['strata_swap_bytes_total{direction="in"}'] > 0) == ("--swap-space" in flags)
        assert after["strata_swap_used_bytes"] == 0
        assert after['strata_kv_pages{state="used"}'] == 0
    assert together == alone


@pytest.mark.parametrize("flags", [["static"], ["static-drop"], ["static", "--length-buckets"]], ids="-".join)
def test_static_batches_give_the_same_answers(strata, alone, flags):
    """The baseline to measure against: batches of 4, padded or not; only padding is computed in vain."""
    with serving(strata, "--model", f"{MODEL}={require_model(MODEL)}", "--batching", *flags, "--max-running", 4, "--context", 512) as server:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda number: essence(answer(server, COMPLETIONS, long_request(number))), range(8)))
        after = metrics(server)
        assert (after["strata_engine_padding_rows_total"] > 0) == (flags[0] == "static")
        assert after['strata_kv_pages{state="used"}'] == after['strata_kv_pages{state="cached"}'] == 0
    assert together == alone


@pytest.mark.bounds
def test_a_long_prompt_does_not_stop_a_stream(strata):
    """The gaps of a stream while a long prompt is read stay near the target (with slack for a busy machine), and the prompt starts."""
    with serving(strata, "--model", f"{MODEL}={require_model(MODEL)}", "--itl-target-ms", 100) as server:
        victim = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 150, "ignore_eos": True, "seed": 1}
        stream(server, COMPLETIONS, {**victim, "max_tokens": 10})
        with concurrent.futures.ThreadPoolExecutor() as pool:
            running = pool.submit(stream, server, COMPLETIONS, victim)
            wait_until(lambda: gauges(server)[0] == 1)
            long = {"model": MODEL, "prompt": "The sea was calm and the wind had gone. " * 300, "max_tokens": 1, "seed": 2}
            usage = answer(server, COMPLETIONS, long)["usage"]
            assert usage["prompt_tokens"] > 2500
            assert running.result().largest_gap_s() < 5 * 0.5
