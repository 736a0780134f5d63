"""The client goes away: its work stops at once, is counted, and disturbs nobody (case C19)."""
import contextlib
import os
import random
import threading
import time

import pytest

from api import COMPLETIONS, answer, is_idle, metrics, stream, wait_until
from conftest import require_case
from raw_http import Connection, post_bytes
from serving import serving

PROBE = {"model": "chain", "prompt": [1, 262], "temperature": 0}
ENDLESS = {"model": "chain", "prompt": [1, 270], "max_tokens": 200_000, "temperature": 0}
GREEDY = "alpha beta😀 gamma delta epsilon"


@contextlib.contextmanager
def long_chain(strata, running):
    with serving(strata, "--model", f"chain={require_case('common/chain-long.gguf')}", "--max-running", running,
                 "--kv-memory", "1GiB") as server:
        yield server


@pytest.fixture(scope="module")
def two_slots(strata):
    with long_chain(strata, 2) as server:
        yield server


@pytest.fixture(scope="module")
def one_slot(strata):
    with long_chain(strata, 1) as server:
        yield server


def open_endless(server, streamed):
    connection = Connection(server)
    connection.send(post_bytes(COMPLETIONS, {**ENDLESS, "stream": streamed}))
    return connection


def gauges(server):
    now = metrics(server)
    return now["strata_requests_running"], now["strata_requests_waiting"]


def outcomes(server):
    return {name: count for name, count in metrics(server).items() if name.startswith("strata_requests_total")}


def cpu_seconds(server):
    with open(f"/proc/{server.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("streamed, count", [(True, 2), (False, 2), (True, 6), (False, 6)])
def test_dropped_requests_stop_at_once(two_slots, streamed, count):
    before = outcomes(two_slots)
    connections = [open_endless(two_slots, streamed) for _ in range(count)]
    wait_until(lambda: gauges(two_slots) == (2, count - 2))
    time.sleep(0.2)
    for connection in connections:
        connection.socket.close()
    assert wait_until(lambda: is_idle(two_slots)) < 1
    begin = time.monotonic()
    assert answer(two_slots, COMPLETIONS, PROBE)["choices"][0]["text"] == GREEDY
    assert time.monotonic() - begin < 1
    after = outcomes(two_slots)
    rise = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert rise == {'strata_requests_total{outcome="aborted"}': count, 'strata_requests_total{outcome="completed"}': 1}
    # The processor is idle again.
    used = cpu_seconds(two_slots)
    time.sleep(0.5)
    assert cpu_seconds(two_slots) - used < 0.1


def test_dropping_a_waiting_request_does_not_touch_the_running_one(one_slot):
    answers = []
    running = threading.Thread(target=lambda: answers.append(stream(one_slot, COMPLETIONS, {**ENDLESS, "max_tokens": 6_000})))
    running.start()
    wait_until(lambda: gauges(one_slot)[0] == 1)
    waiting = open_endless(one_slot, True)
    wait_until(lambda: gauges(one_slot) == (1, 1))
    waiting.socket.close()
    assert wait_until(lambda: gauges(one_slot)[1] == 0) < 1
    running.join()
    [whole] = answers
    assert whole.text() == " ping pong" * 3_000 and whole.finish_reason() == "length"


def drop_at_random_times(server, rounds):
    randomness = random.Random(19)
    threads = len(os.listdir(f"/proc/{server.pid}/task"))
    files = len(os.listdir(f"/proc/{server.pid}/fd"))
    before = metrics(server)['strata_requests_total{outcome="aborted"}']
    memory = None
    for number in range(rounds):
        connections = [open_endless(server, randomness.random() < 0.5) for _ in range(randomness.randint(1, 4))]
        time.sleep(randomness.random() * 0.05)
        for connection in connections:
            connection.socket.close()
        if number == rounds // 5:
            memory = server.memory_bytes()
    wait_until(lambda: is_idle(server))
    assert answer(server, COMPLETIONS, PROBE)["choices"][0]["text"] == GREEDY
    wait_until(lambda: len(os.listdir(f"/proc/{server.pid}/fd")) <= files)
    assert len(os.listdir(f"/proc/{server.pid}/task")) <= threads
    assert server.memory_bytes() < memory * 1.05
    assert metrics(server)['strata_requests_total{outcome="aborted"}'] > before


@pytest.mark.bounds
def test_nothing_is_left_over_after_many_drops(two_slots):
    drop_at_random_times(two_slots, 40)


@pytest.mark.slow
def test_nothing_is_left_over_after_200_rounds(two_slots):
    drop_at_random_times(two_slots, 200)
