"""Promise 1: the same request gives the same ids and logprobs, bit for bit, alone or among 63 others, with 1 or 2 threads,
streamed or not, on the default model; `strata run` draws the same."""
import concurrent.futures
import json
import random
import subprocess

import pytest

from api import COMPLETIONS, answer, metrics, stream, wait_until
from conftest import require_model
from serving import serving

WORDS = "the llama walked over a hill and saw its own shadow in cold clear water before night came down".split()
MODEL = "smollm2-135m"


def request_of(number):
    """One of 64 requests of mixed lengths and settings; the first is the one that is watched."""
    randomness = random.Random(number)
    prompt = " ".join(randomness.choices(WORDS, k=40 if number == 0 else randomness.choice([1, 3, 17, 40])))
    return {"model": MODEL, "prompt": prompt, "seed": number, "temperature": randomness.choice([0, 0.7, 1.3]) if number else 0.9,
            "top_p": 0.95, "max_tokens": 16 if number == 0 else randomness.choice([1, 4, 16]), "logprobs": 5, "ignore_eos": True}


def essence(choice):
    """Text and every number of a completion choice; JSON carries floats exactly."""
    logprobs = choice["logprobs"]
    return choice["text"], logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]


def ask(server, number):
    return essence(answer(server, COMPLETIONS, request_of(number))["choices"][0])


def ask_streamed(server, number):
    parts = [choice for choice in stream(server, COMPLETIONS, request_of(number)).choice_frames() if choice["logprobs"]]
    lists = [[entry for part in parts for entry in part["logprobs"][key]] for key in ("tokens", "token_logprobs", "top_logprobs")]
    return ("".join(part["text"] for part in parts), *lists)


@pytest.fixture(scope="module")
def alone(smollm2):
    return ask(smollm2, 0)


@pytest.fixture(scope="module")
def crowded(strata):
    """A server that reads prompts as fast as it can, so that all run together."""
    with serving(strata, "--model", f"{MODEL}={require_model(MODEL)}", "--itl-target-ms", 60_000) as server:
        yield server


def test_among_63_others(smollm2, crowded, alone):
    """All 64 are in flight in one batch; some are then asked again alone."""
    highest = []
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        crowd = [pool.submit(ask_streamed if number % 2 else ask, crowded, number) for number in range(64)]
        while not all(done.done() for done in crowd):
            highest.append(metrics(crowded)["strata_requests_running"])
        answers = [done.result() for done in crowd]
    assert answers[0] == alone
    assert max(highest) >= 32, "they were not in flight together"
    for number in (1, 2, 3, 31, 62, 63):
        assert ask(smollm2, number) == answers[number]


def test_streamed(smollm2, alone):
    assert ask_streamed(smollm2, 0) == alone


@pytest.mark.parametrize("flags", [("--threads", 1), ("--threads", 2), ("--batch-tokens", 7)], ids=lambda flags: "".join(map(str, flags)))
def test_threads_and_chunks_of_the_prompt(strata, alone, flags):
    with serving(strata, "--model", f"{MODEL}={require_model(MODEL)}", *flags) as server:
        assert ask(server, 0) == alone


@pytest.mark.parametrize("threads", [1, 2])
def test_run_gives_the_same_ids(strata, smollm2, alone, threads):
    body = request_of(0)
    done = subprocess.run([strata, "run", require_model(MODEL), "-p", body["prompt"], "--seed", "0", "--temperature", "0.9", "--top-p", "0.95",
                           "--max-tokens", "16", "--threads", str(threads), "--json"], capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert result["text"] == alone[0]
    pieces = answer(smollm2, "/detokenize", {"ids": result["ids"]})["text"]
    assert pieces == alone[0] and len(result["ids"]) == len(alone[1])


def test_64_sequences_run_in_one_batch(crowded):
    """Equal greedy requests, all in flight at once, give equal texts; each is long enough to be there still when the last one arrives."""
    with concurrent.futures.ThreadPoolExecutor(65) as pool:
        body = {"model": MODEL, "prompt": "Once", "max_tokens": 100, "ignore_eos": True, "temperature": 0}
        running = [pool.submit(answer, crowded, COMPLETIONS, body) for _ in range(64)]
        wait_until(lambda: metrics(crowded)["strata_requests_running"] == 64, 60, "a batch of 64")
        assert len({done.result()["choices"][0]["text"] for done in running}) == 1
