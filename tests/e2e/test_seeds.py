"""Seeds: repeatable on every path, independent of neighbours, and really random (case C07)."""
import collections
import concurrent.futures
import json
import random
import subprocess
import time

import pytest

from api import CHAT, COMPLETIONS, answer, case_json, stream
from conftest import require_case
from serving import serving

FACES = (" one", " two", " three", " four", " five", " six")
CHI_SQUARE_LIMIT = 20.5     # five degrees of freedom, p = 0.001


def roll(server, **fields):
    """The texts of all choices; a field that is None is left out."""
    body = {key: value for key, value in {**case_json("C07/dice.json"), **fields}.items() if value is not None}
    return [choice["text"] for choice in answer(server, COMPLETIONS, body)["choices"]]


def chi_square(faces):
    counts = collections.Counter(faces)
    assert set(counts) <= set(FACES)
    expected = len(faces) / len(FACES)
    return sum((counts[face] - expected) ** 2 / expected for face in FACES)


@pytest.fixture(scope="module")
def seven(chain):
    return roll(chain)[0]


def test_a_seed_repeats_and_another_does_not(chain, seven):
    assert roll(chain) == [seven]
    assert roll(chain, seed=8) != [seven]
    assert roll(chain, seed=None) != [seven]
    assert roll(chain, seed=None) != roll(chain, seed=None)
    assert stream(chain, COMPLETIONS, case_json("C07/dice.json")).text() == seven


def test_neighbours_do_not_change_a_seeded_answer(chain, seven):
    randomness = random.Random(7)

    def neighbour():
        time.sleep(randomness.random() * 0.005)
        roll(chain, seed=None, temperature=randomness.choice([0.3, 0.9, 2.0]), max_tokens=100)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            neighbours = [pool.submit(neighbour) for _ in range(7)]
            time.sleep(randomness.random() * 0.005)
            assert roll(chain) == [seven]
            for done in neighbours:
                done.result()


def test_choices_of_one_request(chain):
    assert len(set(roll(chain, n=4, seed=None))) > 1
    four = roll(chain, n=4)
    assert len(four) == 4 and len(set(four)) > 1
    assert roll(chain, n=4) == four


def test_draws_are_uniform(chain):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda seed: roll(chain, seed=seed, max_tokens=4)[0], range(1, 301)))
    rolls = [[" " + face for face in text.split()] for text in texts]
    assert all(len(faces) == 4 for faces in rolls)
    assert chi_square([face for faces in rolls for face in faces]) < CHI_SQUARE_LIMIT
    assert chi_square([faces[0] for faces in rolls]) < CHI_SQUARE_LIMIT


@pytest.mark.parametrize("threads", [1, 2])
def test_thread_count_does_not_matter(strata, seven, threads):
    with serving(strata, "--model", f"chain={require_case('common/chain.gguf')}", "--threads", threads) as server:
        assert roll(server) == [seven]


@pytest.mark.parametrize("threads", [1, 2])
def test_run_draws_as_the_server_does(strata, chain, threads):
    """So hot that nearly every token is a surprise: the same seed gives the same text on both ways in."""
    sampling = {"seed": 7, "temperature": 8, "max_tokens": 40}
    body = {"model": "chain", "messages": [{"role": "user", "content": "hi"}], **sampling}
    expected = answer(chain, CHAT, body)
    flags = [text for key, value in sampling.items() for text in (f"--{key.replace('_', '-')}", str(value))]
    done = subprocess.run([strata, "run", require_case("common/chain.gguf"), "--chat", "-p", "hi", *flags, "--threads", str(threads),
                           "--json"], capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert result["text"] == expected["choices"][0]["message"]["content"]
    assert result["usage"]["completion_tokens"] == expected["usage"]["completion_tokens"] == len(result["ids"])
