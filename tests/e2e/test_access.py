"""Who may call: API keys with their rate limits, pages of other origins, TLS."""
import shutil
import ssl
import subprocess
import time

import httpx
import openai
import pytest

from api import COMPLETIONS, answer, error, post
from conftest import missing, require_case
from raw_http import Connection, exchange, post_bytes, request_bytes
from serving import serving

ASK = {"model": "chain", "prompt": [1, 262], "temperature": 0}
GREEDY = "alpha beta😀 gamma delta epsilon"


def serving_chain(strata, *arguments):
    return serving(strata, "--model", f"chain={require_case('common/chain.gguf')}", *arguments)


@pytest.fixture(scope="module")
def keyed(strata, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("# name:key[:priority cap[:requests per minute]]\n\nme:s3cret\nslow:other:0:3\n")
    with serving_chain(strata, "--api-key-file", keys) as server:
        yield server


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret", "Bearer me"])
def test_missing_and_wrong_keys(keyed, header):
    headers = {"Authorization": header} if header else {}
    found = error(keyed, COMPLETIONS, ASK, 401, **headers)
    assert (found["type"], found["code"]) == ("authentication_error", "invalid_api_key")
    assert "s3cret" not in found["message"] and "s3cret" not in keyed.log()
    assert httpx.get(keyed.url + "/v1/models", headers=headers).status_code == 401


def test_right_keys(keyed):
    for header in ("Bearer s3cret", "bearer s3cret", "BEARER s3cret"):
        assert answer(keyed, COMPLETIONS, ASK, Authorization=header)["choices"][0]["text"] == GREEDY


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready", "/metrics", "/openapi.json", "/"])
def test_what_needs_no_key(keyed, path):
    assert httpx.get(keyed.url + path).status_code == 200


def test_rate_limit(keyed):
    """Three a minute: the fourth is told when to come back."""
    key = {"Authorization": "Bearer other"}
    for _ in range(3):
        assert post(keyed, COMPLETIONS, ASK, **key).status_code == 200
    begin = time.monotonic()
    response = post(keyed, COMPLETIONS, ASK, **key)
    assert response.status_code == 429 and response.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(response.headers["retry-after"]) <= 60 and time.monotonic() - begin < 1
    with pytest.raises(openai.RateLimitError):
        keyed.client(api_key="other").models.list()
    assert post(keyed, COMPLETIONS, ASK, Authorization="Bearer s3cret").status_code == 200     # another key's


@pytest.mark.parametrize("text", ["", "# only a comment\n", "nocolon\n", "me:\n", ":key\n", "me:key:high\n", "me:key:0:many\n", "a:b:0:1:2\n"])
def test_broken_key_files(strata, tmp_path, text):
    keys = tmp_path / "keys"
    keys.write_text(text)
    done = subprocess.run([strata, "serve", "--port", "0", "--model", f"chain={require_case('common/chain.gguf')}", "--api-key-file", keys],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and str(keys) in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_any_key_will_do_when_none_is_configured(chain):
    for header in ("Bearer DUMMY_KEY", "Basic x", ""):
        assert post(chain, COMPLETIONS, ASK, Authorization=header).status_code == 200


ORIGIN = "https://chat.example"
PREFLIGHT = (f"Origin: {ORIGIN}", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type")


def test_cors_is_off_unless_named(chain):
    reply = exchange(chain, request_bytes("OPTIONS", COMPLETIONS, None, PREFLIGHT))
    assert reply.status == 405 and not [name for name in reply.headers if name.startswith("access-control")]


def test_cors_for_one_origin(strata, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("me:s3cret\n")
    with serving_chain(strata, "--cors", ORIGIN, "--api-key-file", keys) as server:
        reply = exchange(server, request_bytes("OPTIONS", COMPLETIONS, None, PREFLIGHT))     # browsers send no key here
        assert reply.status == 204 and reply.body == b""
        assert reply.headers["access-control-allow-origin"] == ORIGIN and "POST" in reply.headers["access-control-allow-methods"]
        allowed = reply.headers["access-control-allow-headers"].lower()
        assert "authorization" in allowed and "content-type" in allowed
        headers = (f"Origin: {ORIGIN}", "Authorization: Bearer s3cret")
        reply = exchange(server, post_bytes(COMPLETIONS, ASK, headers))
        assert reply.status == 200 and reply.headers["access-control-allow-origin"] == ORIGIN and reply.headers["vary"] == "Origin"
        # Errors can be read by the page too, and so can streams.
        reply = exchange(server, post_bytes(COMPLETIONS, {**ASK, "stream": True}, headers))
        assert reply.status == 200 and reply.headers["access-control-allow-origin"] == ORIGIN
        reply = exchange(server, post_bytes(COMPLETIONS, ASK, headers[:1]))
        assert reply.status == 401 and reply.headers["access-control-allow-origin"] == ORIGIN


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        missing("openssl (scripts/install-deps)")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem",
                    "-out", folder / "cert.pem"], check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_tls(strata, certificate):
    cert, key = certificate
    with serving_chain(strata, "--tls-cert", cert, "--tls-key", key) as server:
        assert server.scheme == "https"
        with server.client(http_client=httpx.Client(verify=ssl.create_default_context(cafile=cert))) as client:
            reply = client.completions.create(model="chain", prompt=[1, 262], temperature=0)
            assert reply.choices[0].text == GREEDY
            stream = client.completions.create(model="chain", prompt=[1, 262], temperature=0, stream=True)
            assert "".join(chunk.choices[0].text for chunk in stream) == GREEDY
        # Plain HTTP on this port, and a connection that says nothing, harm nobody.
        with Connection(server) as plain, Connection(server):
            plain.send(request_bytes("GET", "/health"))
            assert plain.is_closed_by_peer()
            with Connection(server, tls=True) as torn:
                torn.send_slowly(post_bytes(COMPLETIONS, ASK), 5, 0.02)
                assert torn.read_answer().json()["choices"][0]["text"] == GREEDY


@pytest.mark.parametrize("change", ["no key", "no cert", "swapped", "not pem"])
def test_tls_files_that_are_wrong(strata, certificate, tmp_path, change):
    cert, key = certificate
    junk = tmp_path / "junk.pem"
    junk.write_text("not a certificate")
    flags = {"no key": ["--tls-cert", cert], "no cert": ["--tls-key", key], "swapped": ["--tls-cert", key, "--tls-key", cert],
             "not pem": ["--tls-cert", junk, "--tls-key", key]}[change]
    done = subprocess.run([strata, "serve", "--port", "0", "--model", f"chain={require_case('common/chain.gguf')}", *flags],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
