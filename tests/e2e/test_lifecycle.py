"""Start, drain and end of the server, and what it says when it cannot start."""
import json
import os
import shutil
import signal
import struct
import subprocess
import threading
import time

import httpx
import pytest

from api import CHAT, COMPLETIONS, answer, error, error_of, is_idle, metrics, post, stream, wait_until
from conftest import ROOT, require_case, require_model
from raw_http import Connection, post_bytes, request_bytes
from serving import serving, start_server

ASK = {"model": "chain", "prompt": [1, 262], "temperature": 0}
GREEDY = "alpha beta😀 gamma delta epsilon"
ENDLESS = {"model": "chain", "prompt": [1, 270], "max_tokens": 200_000, "temperature": 0}


def start_long_chain(strata, *arguments):
    return start_server(strata, "--model", f"chain={require_case('common/chain-long.gguf')}", "--kv-memory", "512MiB", *arguments)


def collect(results, work):
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    return thread


def test_sigterm_lets_running_requests_finish(strata):
    server = start_long_chain(strata, "--drain-timeout", 250)
    results = []
    with Connection(server) as kept:
        kept.send(request_bytes("GET", "/health/ready"))
        assert kept.read_answer().json()["status"] == "ready"
        threads = [collect(results, lambda: stream(server, COMPLETIONS, {**ENDLESS, "max_tokens": 12_000})),
                   collect(results, lambda: answer(server, COMPLETIONS, {**ENDLESS, "max_tokens": 12_000}))]
        wait_until(lambda: metrics(server)["strata_requests_running"] == 2)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: httpx.get(server.url + "/health/ready").status_code == 503)
        kept.send(request_bytes("GET", "/health/live"))
        assert kept.read_answer().status == 200
        response = post(server, COMPLETIONS, ASK)
        found = error_of(response, 503)
        assert found["code"] == "draining" and 1 <= int(response.headers["retry-after"]) <= 60
    for thread in threads:
        thread.join()
    streamed = next(result for result in results if not isinstance(result, dict))
    whole = next(result for result in results if isinstance(result, dict))
    assert streamed.text() == whole["choices"][0]["text"] == " ping pong" * 6000
    assert server.process.wait(10) == 0


def test_drain_time_out_ends_what_still_runs(strata):
    server = start_long_chain(strata, "--drain-timeout", 0.5)
    results = []
    thread = collect(results, lambda: httpx.post(server.url + COMPLETIONS, json={**ENDLESS, "stream": True}, timeout=60).text)
    wait_until(lambda: not is_idle(server))
    begin = time.monotonic()
    assert server.stop() == 0
    assert 0.4 < time.monotonic() - begin < 5
    thread.join()
    # The client can tell: an error event, then the end.
    assert "event: error\n" in results[0] and results[0].endswith("data: [DONE]\n\n")
    last = json.loads(results[0].split("event: error\ndata: ")[1].split("\n")[0])["error"]
    assert last["code"] == 503 and last["type"] == "draining" and "the request was ended" in last["message"]


def test_second_signal_ends_at_once(strata):
    server = start_long_chain(strata)
    with Connection(server) as connection:
        connection.send(post_bytes(COMPLETIONS, ENDLESS))
        wait_until(lambda: not is_idle(server))
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert server.process.poll() is None
        begin = time.monotonic()
        assert server.stop() == 130 and time.monotonic() - begin < 1


def refused_start(strata, *arguments):
    """Status and the one line of a server that must not start."""
    done = subprocess.run([strata, "serve", "--port", "0", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1, done
    return done.returncode, done.stderr


def test_not_enough_memory(strata):
    status, line = refused_start(strata, require_case("common/chain.gguf"), "--kv-memory", "900GiB")
    assert status == 4 and "MiB are missing" in line and "would fit" in line, line


def test_port_taken(strata, chain):
    done = subprocess.run([strata, "serve", "--port", str(chain.port), require_case("common/chain.gguf")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and str(chain.port) in done.stderr and len(done.stderr.splitlines()) == 1, done


@pytest.mark.parametrize("model", ["nothing-of-that-name", "/nowhere/model.gguf", "."])
def test_missing_model(strata, model):
    status, line = refused_start(strata, model)
    assert status == 3 and model in line, line
    if model == "nothing-of-that-name":
        assert "strata models" in line or "get-model" in line, line


def test_without_a_name_the_default_model_is_served(strata, tmp_path):
    require_model("smollm2-135m")
    with serving(strata) as server:
        assert [model["id"] for model in httpx.get(server.url + "/v1/models").json()["data"]] == ["smollm2-135m"]
    away = subprocess.run([strata, "serve", "--port", "0"], env={**os.environ, "STRATA_HOME": str(tmp_path)},
                          capture_output=True, text=True, timeout=60)
    assert away.returncode == 3 and "scripts/get-model smollm2-135m" in away.stderr, away


@pytest.mark.release_build
def test_the_first_command_of_the_readme():
    """scripts/serve, from what is installed and built already; its arguments are the server's."""
    require_model("smollm2-135m")
    # It ends as strata serve, which it becomes.
    server = start_server(ROOT / "scripts/serve", command=())
    try:
        assert httpx.get(server.url + "/v1/models").json()["data"][0]["id"] == "smollm2-135m"
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize("flags", [["--no-such-flag"], ["--port", "99999"], ["--max-running", "0"], ["--kv-memory", "lots"], ["--kv-type", "q3"], ["--page-size", "12"],
                                   ["--model", "noequals"], ["--model", "a=b", "--model", "a=c"], ["--log", "xml"], ["--drain-timeout", "-1"]])
def test_wrong_flags(strata, flags):
    done = subprocess.run([strata, "serve", "--port", "0", *flags], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and done.stdout == "" and done.stderr


def test_context_is_clamped_to_what_the_pool_holds(strata):
    """chain-long wants 262,144 tokens, far more than 4 MiB hold, and this is said."""
    path = require_case("common/chain-long.gguf")
    with serving(strata, "--model", f"chain={path}", "--kv-memory", "4MiB") as server:
        context = httpx.get(server.url + "/v1/models").json()["data"][0]["context_length"]
        assert 0 < context < 262_144 and str(context) in server.log() and "262144" in server.log()
        found = error(server, COMPLETIONS, {"model": "chain", "prompt": "a" * context}, 400)
        assert found["code"] == "context_length_exceeded" and str(context) in found["message"]
        reply = answer(server, COMPLETIONS, {**ENDLESS, "max_tokens": 10})
        assert reply["usage"]["completion_tokens"] == 10


def test_bytes_that_are_no_utf8(chain):
    """A model that emits C3 28: U+FFFD and "(", valid JSON, streamed or not."""
    body = {"model": "chain", "prompt": [1, 273], "temperature": 0}
    assert answer(chain, COMPLETIONS, body)["choices"][0]["text"] == "\ufffd("
    assert stream(chain, COMPLETIONS, body).text() == "\ufffd("
    reply = answer(chain, COMPLETIONS, {**body, "logprobs": 1})
    assert reply["choices"][0]["logprobs"]["tokens"][0] == "bytes:\\xc3"


@pytest.fixture(scope="module")
def broken_row(tmp_path_factory):
    """chain as a folder, with a NaN in the embedding of ` ping` (271): answers that never meet it are right."""
    source, folder = require_case("common/chain-hf"), tmp_path_factory.mktemp("nan") / "chain"
    shutil.copytree(source, folder)
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    size, = struct.unpack_from("<Q", data)
    table = json.loads(data[8:8 + size])
    entry = table["model.embed_tokens.weight"]
    width = {"F32": 4, "F16": 2, "BF16": 2}[entry["dtype"]]
    nan = {"F32": b"\x00\x00\xc0\x7f", "F16": b"\x00\x7e", "BF16": b"\xc0\x7f"}[entry["dtype"]]
    at = 8 + size + entry["data_offsets"][0] + 271 * entry["shape"][1] * width
    data[at:at + width] = nan
    weights.chmod(0o644)
    weights.write_bytes(data)
    return folder


def test_nan_weights_fail_their_request_only(strata, broken_row):
    with serving(strata, "--model", f"chain={broken_row}") as server:
        assert answer(server, COMPLETIONS, ASK)["choices"][0]["text"] == GREEDY
        response = post(server, COMPLETIONS, {**ENDLESS, "max_tokens": 10})
        assert error_of(response, 500)["type"] == "internal_error"
        assert response.headers["x-should-retry"] == "false"
        wait_until(lambda: "embed_tokens" in server.log() or "token_embd" in server.log(), 10, "the tensor's name in the log")
        text = httpx.post(server.url + COMPLETIONS, json={**ENDLESS, "max_tokens": 10, "stream": True}).text
        assert '"choices"' in text.split("event: error")[0] and text.endswith("data: [DONE]\n\n")
        found = json.loads(text.split("event: error\ndata: ")[1].split("\n")[0])["error"]
        assert found["code"] == 500
        assert answer(server, COMPLETIONS, ASK)["choices"][0]["text"] == GREEDY


def test_model_file_truncated_while_served(strata, tmp_path):
    """It harms that model only, or nobody: another model goes on, and the process lives."""
    copy = tmp_path / "copy.gguf"
    shutil.copy(require_model("smollm2-135m"), copy)
    with serving(strata, "--model", f"cut={copy}", "--model", f"chain={require_case('common/chain.gguf')}", "--kv-memory", "64MiB") as server:
        body = {"model": "cut", "prompt": "Once upon a time", "temperature": 0, "max_tokens": 4}
        assert post(server, COMPLETIONS, body).status_code == 200
        with open(copy, "r+b") as file:
            file.truncate(1 << 20)
        for _ in range(2):
            assert post(server, COMPLETIONS, body).status_code in (200, 500, 503)
            assert answer(server, COMPLETIONS, ASK)["choices"][0]["text"] == GREEDY


def test_json_log(strata):
    with serving(strata, "--model", f"chain={require_case('common/chain.gguf')}", "--log", "json") as server:
        error(server, CHAT, {"model": "chain"}, 400)
        lines = [line for line in server.log().splitlines() if not line.startswith("listening on")]
        assert lines and all(isinstance(json.loads(line), dict) for line in lines), lines
