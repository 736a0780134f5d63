"""Clients of every kind at once: answers, streams, choices, embeddings, errors, time-outs, and clients that leave."""
import collections
import concurrent.futures
import random
import time

import httpx

from api import COMPLETIONS, EMBEDDINGS, TIMEOUT_S, error_of, is_idle, metrics, read_stream, wait_until
from raw_http import Connection, post_bytes

MODEL = "smollm2-135m"
CLIENTS = 12
WORDS = "the miller, his three sons and the cat that spoke of rain went over the hill to see the sea".split()
# (path, fields that make the request a bad one, status)
BAD = (
    (COMPLETIONS, {"temperature": -1}, 400),
    (COMPLETIONS, {"n": 10_000}, 400),
    (COMPLETIONS, {"no_such_field": 1}, 400),
    (COMPLETIONS, {"model": "nobody"}, 404),
    (COMPLETIONS, {"prompt": "far too long " * 2000}, 400),
    (EMBEDDINGS, {"input": 5}, 400),
)


def completion(randomness):
    """The prompts begin alike now and then, and are long enough that some dozen do not fit together."""
    shared = " ".join(WORDS) if randomness.random() < 0.5 else ""
    prompt = shared + " ".join(randomness.choices(WORDS, k=randomness.randint(1, 120)))
    return {"model": MODEL, "prompt": prompt, "seed": randomness.randrange(1 << 30), "temperature": randomness.choice([0, 0.8]),
            "max_tokens": randomness.randint(1, 120), "ignore_eos": True}


class MixedLoad:
    """What was sent and answered: counts of ("completed" | "timeout" | "overloaded" | "rejected" | "left")."""

    def __init__(self, server):
        self.server = server
        self.counts = collections.Counter()

    def fill(self):
        """All clients at once with the longest answers: as many rows in a step as there will ever be."""
        randomness = random.Random(0)
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool, httpx.Client(base_url=self.server.url, timeout=TIMEOUT_S) as http:
            bodies = [{**completion(randomness), "max_tokens": 120, "temperature": 0.8} for _ in range(CLIENTS)]
            for done in [pool.submit(http.post, COMPLETIONS, json=body) for body in bodies]:
                self.counts[self._outcome(done.result())] += 1

    def run(self, seconds, seed):
        """CLIENTS clients for so long; what one of them cannot explain is raised here."""
        end = time.monotonic() + seconds
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            for done in [pool.submit(self._client, random.Random(seed * 1000 + i), end) for i in range(CLIENTS)]:
                self.counts.update(done.result())

    @property
    def sent(self):
        return sum(self.counts.values())

    def _client(self, randomness, end):
        counts = collections.Counter()
        kinds = (self._whole, self._streamed, self._choices, self._bad, self._late, self._leaving, self._embedding)
        with httpx.Client(base_url=self.server.url, timeout=TIMEOUT_S) as http:
            while time.monotonic() < end:
                kind = randomness.choices(kinds, weights=(5, 5, 1, 2, 1, 3, 1))[0]
                counts[kind(http, randomness)] += 1
        return counts

    @staticmethod
    def _outcome(response):
        if response.status_code in (429, 503):
            return "timeout" if error_of(response, response.status_code)["code"] == "timeout" else "overloaded"
        assert response.status_code == 200, (response.status_code, response.text[:500])
        body = response.json()
        late = any(choice["finish_reason"] == "timeout" for choice in body.get("choices", []))
        return "timeout" if late else "completed"

    def _whole(self, http, randomness):
        return self._outcome(http.post(COMPLETIONS, json=completion(randomness)))

    def _choices(self, http, randomness):
        return self._outcome(http.post(COMPLETIONS, json={**completion(randomness), "n": 3}))

    def _embedding(self, http, randomness):
        return self._outcome(http.post(EMBEDDINGS, json={"model": MODEL, "input": completion(randomness)["prompt"]}))

    def _late(self, http, randomness):
        return self._outcome(http.post(COMPLETIONS, json={**completion(randomness), "max_tokens": 300, "timeout": randomness.uniform(0.01, 1)}))

    def _streamed(self, http, randomness):
        with http.stream("POST", COMPLETIONS, json={**completion(randomness), "stream": True}) as response:
            if response.status_code != 200:
                response.read()
                return self._outcome(response)
            read = read_stream(response.iter_raw(), {})
            assert read.finish_reason() == "length"
            return "completed"

    @staticmethod
    def _bad(http, randomness):
        path, fields, status = randomness.choice(BAD)
        body = {"model": MODEL, "input": "a"} if path == EMBEDDINGS else completion(randomness)
        error_of(http.post(path, json={**body, **fields}), status)
        return "rejected"

    def _leaving(self, _, randomness):
        """In the queue, while the prompt is read, or in the middle of the answer."""
        with Connection(self.server) as connection:
            connection.send(post_bytes(COMPLETIONS, {**completion(randomness), "max_tokens": 300, "stream": randomness.random() < 0.5}))
            time.sleep(randomness.uniform(0, 1))
        return "left"


def check_mixed_load(server, warm_up_s, seconds, seed=1):
    """Runs the load and holds the server to it: every request is counted once and under its name, every page comes back, and
    memory is where it was after the warm-up. Returns the rise of every counter."""
    warm_up = MixedLoad(server)
    warm_up.fill()
    warm_up.run(warm_up_s, seed)
    wait_until(lambda: is_idle(server), 60)
    before, resident = metrics(server), server.memory_bytes()
    load = MixedLoad(server)
    load.run(seconds, seed + 1)
    wait_until(lambda: is_idle(server), 60)
    after = metrics(server)
    rise = {name: after[name] - before[name] for name in after}
    outcome = {name: rise[f'strata_requests_total{{outcome="{name}"}}'] for name in
               ("completed", "aborted", "timeout", "rejected", "overloaded", "failed")}
    counts = load.counts
    assert outcome["rejected"] == counts["rejected"] and outcome["failed"] == 0
    assert outcome["timeout"] == counts["timeout"]
    # Whoever left may have been answered by then, or turned away.
    assert outcome["completed"] >= counts["completed"] and outcome["overloaded"] >= counts["overloaded"], (outcome, counts)
    assert sum(outcome.values()) == load.sent, (outcome, counts)
    assert outcome["aborted"] > 0 and rise["strata_preemptions_total"] > 0, "what the load is for happened"
    assert after['strata_kv_pages{state="used"}'] == 0 and after["strata_swap_used_bytes"] == 0
    assert sum(after[f'strata_kv_pages{{state="{state}"}}'] for state in ("used", "cached", "free")) == \
        sum(before[f'strata_kv_pages{{state="{state}"}}'] for state in ("used", "cached", "free"))
    assert abs(server.memory_bytes() - resident) <= 0.03 * resident, (resident, server.memory_bytes())
    return rise
