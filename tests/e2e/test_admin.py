"""Loading and unloading models while the server runs: who may, from where, what running requests see, the memory budget."""
import concurrent.futures
import os
import shutil
import subprocess

import httpx
import pytest

from api import COMPLETIONS, answer, error_of, metrics, post, stream, wait_until
from conftest import require_case
from serving import serving

KEY = {"Authorization": "Bearer root-secret"}
ASK = {"prompt": [1, 270], "max_tokens": 8, "temperature": 0}


def admin(server, path, body, headers=KEY):
    return httpx.post(f"{server.url}/admin/models/{path}", json=body, headers=headers, timeout=60)


def names(server):
    return [model["id"] for model in httpx.get(f"{server.url}/v1/models").json()["data"]]


def states(server):
    models = httpx.get(f"{server.url}/admin/models", headers=KEY).json()["models"]
    return {model["name"]: model["state"] for model in models}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A model root with two models, a link out of it, and a file that is no model."""
    folder = tmp_path_factory.mktemp("root")
    (folder / "models").mkdir()
    for name in ("one.gguf", "two.gguf"):
        shutil.copy(require_case("common/chain.gguf"), folder / "models" / name)
    shutil.copy(require_case("common/chain.gguf"), folder / "outside.gguf")
    os.symlink(folder / "outside.gguf", folder / "models" / "link.gguf")
    (folder / "models" / "broken.gguf").write_bytes(b"GGUF but no more")
    (folder / "keys").write_text("root:root-secret\n")
    return folder


@pytest.fixture(scope="module")
def managed(strata, root):
    with serving(strata, "--model", f"first={root / 'models' / 'one.gguf'}", "--admin-key-file", root / "keys", "--model-root", root / "models",
                 "--kv-memory", "8MiB", "--drain-timeout", 20) as server:
        yield server


def test_only_with_the_admin_key(strata, managed, root):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "root-secret"}):
        assert error_of(admin(managed, "unload", {"name": "first"}, headers), 401)["code"] == "invalid_api_key"
        assert httpx.get(managed.url + "/admin/models", headers=headers).status_code == 401
    assert names(managed) == ["first"]
    with serving(strata, "--model", f"first={root / 'models' / 'one.gguf'}", "--kv-memory", "8MiB") as open_server:
        assert error_of(admin(open_server, "unload", {"name": "first"}), 403)["code"] == "admin_off"
        assert error_of(admin(open_server, "unload", {"name": "first"}, {}), 401)["code"] == "admin_off"


def test_load_use_unload(managed):
    before = answer(managed, COMPLETIONS, {"model": "first", **ASK})["choices"]
    done = admin(managed, "load", {"name": "second", "path": "two.gguf"})
    assert (done.status_code, done.json()) == (200, {"name": "second", "state": "ready"})
    assert names(managed) == ["first", "second"] and states(managed) == {"first": "ready", "second": "ready"}
    assert answer(managed, COMPLETIONS, {"model": "second", **ASK})["choices"] == before
    assert admin(managed, "load", {"name": "second", "path": "two.gguf"}).status_code == 200, "it is there"
    assert error_of(admin(managed, "load", {"name": "second", "path": "one.gguf"}), 400)["code"] == "model_exists"
    # A second name of the same file shares its engine: nothing of the first goes when it does.
    assert admin(managed, "load", {"name": "alias", "path": "two.gguf"}).status_code == 200
    assert admin(managed, "unload", {"name": "second"}).json() == {"name": "second", "state": "unloaded"}
    assert answer(managed, COMPLETIONS, {"model": "alias", **ASK})["choices"] == before
    steps = metrics(managed)["strata_engine_steps_total"]
    assert admin(managed, "unload", {"name": "alias"}).status_code == 200
    assert metrics(managed)["strata_engine_steps_total"] >= steps, "counters outlive an engine"
    assert error_of(post(managed, COMPLETIONS, {"model": "second", **ASK}), 404)["code"] == "model_not_found"
    assert error_of(admin(managed, "unload", {"name": "second"}), 404)["code"] == "model_not_found"
    assert names(managed) == ["first"]


def test_running_requests_end_first(managed):
    assert admin(managed, "load", {"name": "busy", "path": "two.gguf"}).status_code == 200
    long = {"model": "busy", "prompt": [1, 270], "max_tokens": 100, "temperature": 0}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = [pool.submit(stream, managed, COMPLETIONS, long) for _ in range(4)]
        gone = pool.submit(admin, managed, "unload", {"name": "busy"})
        for one in running:
            try:
                answered = one.result()
            except AssertionError as refused:  # those that came after the order
                assert "404" in str(refused) or "503" in str(refused)
            else:
                assert answered.finish_reason() == "length"
        assert gone.result().status_code == 200
    assert names(managed) == ["first"]


@pytest.mark.parametrize("path", ["../outside.gguf", "link.gguf", "/etc/passwd", "models/../../outside.gguf", ".", "", "a\0b"])
def test_only_below_the_root(managed, path):
    assert error_of(admin(managed, "load", {"name": "x", "path": path}), 400)["param"] == "path"
    assert names(managed) == ["first"]


def test_what_cannot_be_loaded_is_told_and_forgotten(managed):
    assert admin(managed, "load", {"name": "x", "path": "nothing.gguf"}).status_code == 404
    assert error_of(admin(managed, "load", {"name": "x", "path": "broken.gguf"}), 400)["message"]
    for name in ("", "a b", 'a"b', "x" * 200, 5):
        assert error_of(admin(managed, "load", {"name": name, "path": "two.gguf"}), 400)["param"] == "name"
    assert names(managed) == ["first"] and answer(managed, COMPLETIONS, {"model": "first", **ASK})["choices"]


def test_the_least_recently_used_gives_way(strata, root):
    """A budget for one model (its file and its cache) at a time: asking for the other loads it, in place of the first; both stay known."""
    with serving(strata, "--model", f"first={root / 'models' / 'one.gguf'}", "--model", f"second={root / 'models' / 'two.gguf'}",
                 "--admin-key-file", root / "keys", "--kv-memory", "8MiB", "--model-memory", "8300KiB") as server:
        assert states(server) == {"first": "ready", "second": "unloaded"} and names(server) == ["first", "second"]
        want = answer(server, COMPLETIONS, {"model": "first", **ASK})["choices"]
        for name in ("second", "first", "second"):
            response = post(server, COMPLETIONS, {"model": name, **ASK})
            assert error_of(response, 503)["code"] == "loading" and int(response.headers["retry-after"]) >= 1
            wait_until(lambda: states(server)[name] == "ready")
            assert answer(server, COMPLETIONS, {"model": name, **ASK})["choices"] == want
            assert sorted(states(server).values()) == ["ready", "unloaded"]


def test_a_budget_needs_a_size_of_the_cache(strata, root):
    done = subprocess.run([strata, "serve", str(root / "models" / "one.gguf"), "--model-memory", "1GiB"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--kv-memory" in done.stderr
