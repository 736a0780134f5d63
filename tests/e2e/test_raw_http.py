"""HTTP by hand: torn and pipelined requests, methods, heads and bodies that are too large, headers in and out."""
import json
import socket

import httpx
import pytest

from api import COMPLETIONS, answer, error, metrics, post
from conftest import require_case
from raw_http import Connection, exchange, post_bytes, request_bytes
from serving import serving

ASK = {"model": "chain", "prompt": [1, 262], "temperature": 0}
GREEDY = "alpha beta😀 gamma delta epsilon"
MODELS = "/v1/models"


def text_of(reply):
    assert reply.status == 200, reply
    return reply.json()["choices"][0]["text"]


def check_error(reply, status):
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/json"
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
    return reply.json()["error"]


@pytest.mark.parametrize("pieces", [2, 3, 7, 400])
def test_torn_requests(chain, pieces):
    with Connection(chain) as connection:
        connection.send_slowly(post_bytes(COMPLETIONS, ASK), pieces, 0.3 / pieces)
        assert text_of(connection.read_answer()) == GREEDY


def test_pipelined_requests_are_answered_in_order(chain):
    prompts = [[1, 262], [1, 270], [1, 281]]
    requests = [post_bytes(COMPLETIONS, {**ASK, "prompt": prompt, "max_tokens": 3}) for prompt in prompts]
    with Connection(chain) as connection:
        connection.send(b"".join([requests[0], request_bytes("GET", MODELS), *requests[1:]]))
        assert text_of(connection.read_answer()) == "alpha beta\ufffd"
        assert connection.read_answer().json()["object"] == "list"
        assert text_of(connection.read_answer()) == " ping pong ping"
        assert text_of(connection.read_answer()).startswith("<img")


def test_keep_alive_and_close(chain):
    with Connection(chain) as connection:
        for _ in range(3):
            connection.send(post_bytes(COMPLETIONS, ASK))
            assert text_of(connection.read_answer()) == GREEDY
        connection.send(post_bytes(COMPLETIONS, ASK, ("Connection: close",)))
        assert text_of(connection.read_answer()) == GREEDY
        assert connection.is_closed_by_peer()


def test_expect_100_continue(chain):
    body = json.dumps(ASK).encode()
    head = request_bytes("POST", COMPLETIONS, b"", ("Expect: 100-continue",)).replace(b"Content-Length: 0", b"Content-Length: %d" % len(body))
    with Connection(chain) as connection:
        connection.send(head)
        assert connection.read_answer().status == 100
        connection.send(body)
        assert text_of(connection.read_answer()) == GREEDY
    # A body over the limit is refused before it is sent.
    check_error(exchange(chain, head.replace(b"Content-Length: %d" % len(body), b"Content-Length: 999999999")), 413)


def test_upgrade_to_http2_is_ignored(chain):
    headers = ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
    assert text_of(exchange(chain, post_bytes(COMPLETIONS, ASK, headers))) == GREEDY


@pytest.mark.parametrize("path", [MODELS, "/v1/models/chain", "/metrics", "/health", "/health/live", "/openapi.json", "/"])
def test_head_wherever_get_works(chain, path):
    got = exchange(chain, request_bytes("GET", path))
    with Connection(chain) as connection:
        connection.send(request_bytes("HEAD", path) + request_bytes("GET", MODELS))
        head = connection.read_answer(to_head=True)
        assert connection.read_answer().json()["object"] == "list"     # no body came after the head
    assert (got.status, head.status) == (200, 200) and got.body
    assert head.headers["content-type"] == got.headers["content-type"]
    if path != "/metrics":
        assert head.headers["content-length"] == got.headers["content-length"] == str(len(got.body))


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "PROPFIND"])
def test_wrong_methods(chain, method):
    with Connection(chain) as connection:
        connection.send(request_bytes(method, COMPLETIONS))
        reply = connection.read_answer(to_head=method == "HEAD")
    assert reply.status == 405 and reply.headers["allow"] == "POST"
    if method != "HEAD":
        check_error(reply, 405)
    assert exchange(chain, request_bytes("DELETE", MODELS)).headers["allow"] == "GET, HEAD"


def test_unknown_paths(chain):
    for path in ("/nowhere", "/v1/chat/completions/", "/v1", "/v1/models/other", "/web/nothing.js"):
        check_error(exchange(chain, request_bytes("GET", path)), 404)


def test_query_strings_and_encoded_names(chain):
    assert text_of(exchange(chain, post_bytes(COMPLETIONS + "?api-version=1", ASK))) == GREEDY
    assert exchange(chain, request_bytes("GET", "/v1/models/ch%61in")).json()["id"] == "chain"


def test_names_with_a_slash(strata):
    with serving(strata, "--model", f"org/chain={require_case('common/chain.gguf')}") as server:
        assert httpx.get(server.url + "/v1/models/org%2Fchain").json()["id"] == "org/chain"
        assert httpx.get(server.url + "/v1/models/org/chain").json()["id"] == "org/chain"


@pytest.mark.parametrize("line", [
    b"GET / HTTP/1.1\r\nHost: x\r\nA" + b"a" * 200_000 + b": 1\r\n\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"A: 1\r\n" * 10_000 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nBad header\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA : 1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n1",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
], ids=["long-name", "long-target", "many-headers", "no-colon", "blank-before-colon", "tls", "both-lengths", "negative-length",
        "two-lengths", "huge-chunk", "bad-escape"])
def test_broken_requests_are_answered_and_closed(chain, line):
    with Connection(chain) as connection:
        try:
            connection.send(line)
        except (BrokenPipeError, ConnectionResetError):
            pass     # it has heard enough
        reply = connection.read_answer()
        assert reply.status in (400, 413, 431)
        check_error(reply, reply.status)
        assert connection.is_closed_by_peer()
    assert answer(chain, COMPLETIONS, ASK)["choices"][0]["text"] == GREEDY


def test_body_limit(strata):
    with serving(strata, "--model", f"chain={require_case('common/chain.gguf')}", "--max-body", 1) as server:
        found = error(server, COMPLETIONS, b"x" * ((1 << 20) + 1), 413)
        assert "1048576" in found["message"] or "1 MiB" in found["message"]
        assert post(server, COMPLETIONS, b" " * (1 << 20)).status_code == 400
        reply = exchange(server, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
                         (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 17 + b"0\r\n\r\n")
        check_error(reply, 413)


def test_content_encoding_is_refused(chain):
    assert error(chain, COMPLETIONS, b"\x1f\x8b", 400, Content_Encoding="gzip")["code"] == "unsupported"
    assert post(chain, COMPLETIONS, ASK, Content_Encoding="identity").status_code == 200


@pytest.mark.parametrize("given, taken", [("abc-123", True), ("a" * 128, True), ("a" * 129, False), ("has blank", False), ("", False),
                                          ("ünicode", False)])
def test_request_id(chain, given, taken):
    data = post_bytes(COMPLETIONS, ASK).replace(b"Host: test", b"Host: test\r\nX-Request-ID: " + given.encode())
    found = exchange(chain, data).headers["x-request-id"]
    assert (found == given) == taken and found.isascii() and found


def test_every_answer_has_a_request_id(chain):
    for data in (request_bytes("GET", "/nowhere"), request_bytes("GET", MODELS), request_bytes("PUT", MODELS), post_bytes(COMPLETIONS, b"{")):
        assert exchange(chain, data).headers["x-request-id"]


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8", None])
def test_json_under_any_content_type(chain, content_type):
    body = json.dumps(ASK).encode()
    headers = (f"Content-Type: {content_type}",) if content_type else ()
    assert text_of(exchange(chain, request_bytes("POST", COMPLETIONS, body, headers))) == GREEDY


def test_pages_of_other_origins_must_send_json(chain):
    """A form of another page could send this without asking first."""
    body = json.dumps(ASK).encode()
    before = metrics(chain)['strata_tokens_total{direction="in"}']
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp"):
        headers = (f"Content-Type: {content_type}", "Origin: https://evil.example")
        check_error(exchange(chain, request_bytes("POST", COMPLETIONS, body, headers)), 400)
    assert metrics(chain)['strata_tokens_total{direction="in"}'] == before
    for content_type in ("application/json", "application/json; charset=utf-8", "Application/JSON"):
        headers = (f"Content-Type: {content_type}", "Origin: https://good.example")
        reply = exchange(chain, request_bytes("POST", COMPLETIONS, body, headers))
        assert text_of(reply) == GREEDY and "access-control-allow-origin" not in reply.headers


def test_idle_connections_do_not_keep_the_server_from_answering(chain):
    idle = [socket.create_connection((chain.host, chain.port)) for _ in range(200)]
    try:
        assert answer(chain, COMPLETIONS, ASK)["choices"][0]["text"] == GREEDY
    finally:
        for connection in idle:
            connection.close()
