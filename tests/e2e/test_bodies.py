"""Bodies that are almost JSON and almost UTF-8, torn and slow ones (case C17)."""
import json
import time

import pytest

from api import CHAT, COMPLETIONS, answer, error_of, post
from conftest import require_case
from raw_http import Connection, post_bytes, request_bytes

GREEDY = "alpha beta😀 gamma delta epsilon"
CONTROL = {"model": "chain", "prompt": [1, 262], "temperature": 0}
LARGE = {
    "deep array": b'{"model":"chain","prompt":[1,262],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep object": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "long key": b'{"' + b"k" * 1_000_000 + b'":1}',
    "long number": b'{"model":"chain","prompt":[1,262],"max_tokens":' + b"9" * 1_000_000 + b"}",
}


def cases():
    lines = require_case("C17/requests.jsonl").read_text(encoding="utf-8").splitlines()
    return {case["name"]: case for case in map(json.loads, lines)}


def check_control(server):
    begin = time.monotonic()
    assert answer(server, COMPLETIONS, CONTROL)["choices"][0]["text"] == GREEDY
    assert time.monotonic() - begin < 1


def path_of(body):
    return CHAT if '"messages"' in body else COMPLETIONS


# What we chose where the case leaves a choice: lone surrogates and duplicate keys are refused (docs/api.md).
@pytest.mark.parametrize("name, status, param", [
    ("lone high surrogate", 400, None), ("lone low surrogate", 400, None), ("reversed pair", 400, None), ("good pair", 200, None),
    ("surrogate in role", 400, None), ("surrogate in stop", 400, None), ("nul in content", 200, None), ("duplicate key", 400, None),
    ("number out of range", 400, None), ("text after the object", 400, None), ("two objects", 400, None), ("empty body", 400, None),
    ("array body", 400, None), ("null body", 400, None), ("comment", 400, None), ("trailing comma", 400, None),
    ("single quotes", 400, None), ("messages is text", 400, "messages"), ("messages empty", 400, "messages"),
    ("content is number", 400, "messages"), ("content missing", 400, "messages"), ("content null for user", 400, "messages"),
    ("unknown model", 404, "model"), ("escape cut", 400, None)])
def test_almost_json(chain, name, status, param):
    case = cases()[name]
    assert status in case["allow"]
    bodies = [case["body"]]
    if case["body"].startswith('{"'):
        bodies.append('{"stream":true,' + case["body"][1:])
    for body in bodies:
        response = post(chain, path_of(body), body.encode("utf-8", "surrogatepass"))
        if status != 200:
            assert error_of(response, status)["param"] == param
            continue
        assert response.status_code == 200
        if body == case["body"]:
            assert response.json()["usage"]["prompt_tokens"] == {"good pair": 8, "nul in content": 7}[name]
    if name == "unknown model":
        assert "chain" in response.json()["error"]["message"]
    check_control(chain)


def test_every_case_is_here():
    marks = next(mark for mark in test_almost_json.pytestmark if mark.name == "parametrize")
    assert {row[0] for row in marks.args[1]} == set(cases())


@pytest.mark.parametrize("name, status", [("bad-utf8", 400), ("overlong", 400), ("bom", 200)])
def test_almost_utf8(chain, name, status):
    body = require_case(f"C17/{name}.bin").read_bytes()
    response = post(chain, CHAT if b"messages" in body else COMPLETIONS, body)
    if status == 200:
        assert response.status_code == 200, response.text
    else:
        error_of(response, status)
    check_control(chain)


@pytest.mark.bounds
@pytest.mark.parametrize("name", LARGE)
def test_large_bodies_are_refused_at_once(chain, name):
    before = chain.memory_bytes()
    begin = time.monotonic()
    response = post(chain, COMPLETIONS, LARGE[name])
    assert time.monotonic() - begin < 1
    found = error_of(response, 400)
    assert len(response.content) < 1000, "what was sent is clipped in messages"
    assert found["param"] is None or len(found["param"]) <= 80
    for _ in range(5):
        post(chain, COMPLETIONS, LARGE[name])
    assert chain.memory_bytes() < before * 1.05 + (32 << 20)
    check_control(chain)


def test_body_that_ends_early(chain):
    body = json.dumps(CONTROL).encode()
    with Connection(chain) as connection:
        connection.send(request_bytes("POST", COMPLETIONS, body, ()).replace(b"Content-Length: %d" % len(body), b"Content-Length: %d" % (len(body) + 10)))
        connection.half_close()
        assert connection.read_answer().status == 400
    check_control(chain)


def test_chunked_body(chain):
    body = json.dumps(CONTROL).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (body[:7], body[7:]))
    with Connection(chain) as connection:
        connection.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        assert connection.read_answer().json()["choices"][0]["text"] == GREEDY


def test_slow_senders_delay_nobody(chain):
    """Twenty connections that send a byte now and then occupy no place in the batch."""
    request = post_bytes(COMPLETIONS, CONTROL)
    slow = [Connection(chain) for _ in range(20)]
    try:
        for sent in range(20):
            for connection in slow:
                connection.send(request[sent:sent + 1])
            time.sleep(0.05)
            check_control(chain)
        for connection in slow:
            connection.send(request[20:])
        for connection in slow:
            assert connection.read_answer().json()["choices"][0]["text"] == GREEDY
    finally:
        for connection in slow:
            connection.socket.close()
