"""Keys and values in files: sessions of `strata run`, and a prompt cache that survives the server."""
import json
import subprocess

import pytest

from api import COMPLETIONS, answer
from conftest import require_model
from serving import serving

MODEL = "smollm2-135m"
PROMPT = "The ferryman had carried kings and thieves, and once a bear. " * 3
GREEDY = ("--temperature", "0", "--max-tokens", "20", "--json", "--quiet")


def run(strata, *arguments, status=0):
    done = subprocess.run([strata, "run", MODEL, *map(str, arguments), *GREEDY], capture_output=True, text=True, timeout=180)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else done.stderr


def test_a_session_goes_on_where_it_ended(strata, tmp_path):
    file = tmp_path / "session"
    first = run(strata, "-p", PROMPT, "--save-session", file)
    more = run(strata, "-p", " And then", "--load-session", file, "--save-session", tmp_path / "next")
    whole = run(strata, "-p", PROMPT + first["text"] + " And then")
    assert more["ids"] == whole["ids"] and more["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]
    # The last token drawn was never an input, and the prompt's new tokens are not cached.
    assert more["usage"]["prompt_tokens_details"]["cached_tokens"] == first["usage"]["total_tokens"] - 1
    again = run(strata, "-p", " so", "--load-session", tmp_path / "next")
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == more["usage"]["total_tokens"] - 1


def test_what_is_no_session_of_this_model_is_refused(strata, tmp_path):
    file = tmp_path / "session"
    run(strata, "-p", PROMPT, "--save-session", file)
    assert "kv_type" in run(strata, "-p", "a", "--load-session", file, "--kv-type", "f32", status=3)
    refused = run(strata, "-p", "a", "--load-session", file, "--page-size", "32", status=3)
    assert '"page_size":16' in refused and '"page_size":32' in refused
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert "checksum" in run(strata, "-p", "a", "--load-session", file, status=3)
    assert run(strata, "-p", "a", "--load-session", tmp_path / "nothing", status=3)
    assert "prefix cache" in run(strata, "-p", "a", "--save-session", file, "--kv-policy", "sinks=4,window=64", status=2)


@pytest.fixture
def keys(tmp_path):
    file = tmp_path / "keys"
    file.write_text("ann:ann-key\nbob:bob-key\n")
    return file


def test_prompts_survive_a_restart(strata, tmp_path, keys):
    """Each key finds its own again, also when it stands elsewhere in the file; nobody finds another's; damage costs a warning."""
    ask = {"model": MODEL, "prompt": PROMPT, "max_tokens": 8, "temperature": 0, "logprobs": 1}
    flags = ("--model", f"{MODEL}={require_model(MODEL)}", "--prompt-cache", tmp_path / "cache", "--api-key-file", keys)

    def cached(server, key):
        body = answer(server, COMPLETIONS, ask, Authorization=f"Bearer {key}")
        return body["usage"]["prompt_tokens_details"]["cached_tokens"], body["choices"], body["usage"]["prompt_tokens"]

    with serving(strata, *flags) as server:
        hits, choices, size = cached(server, "ann-key")
        assert hits == 0
    [file] = (tmp_path / "cache").iterdir()
    assert file.suffix == ".prompts" and (tmp_path / "cache").stat().st_mode & 0o077 == 0
    keys.write_text("bob:bob-key\nann:ann-key\n")
    with serving(strata, *flags) as server:
        assert cached(server, "bob-key")[0] == 0
        assert cached(server, "ann-key") == (size - 1, choices, size)
    with serving(strata, *flags, "--prompt-cache-size", "1") as server:
        assert cached(server, "ann-key")[0] == size - 1
    with serving(strata, *flags) as server:
        assert cached(server, "ann-key")[0] == 0, "nothing fitted into one byte"
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    with serving(strata, *flags) as server:
        assert cached(server, "ann-key")[0:2] == (0, choices)


def test_declared_prompts_survive_a_restart(strata, tmp_path):
    """Declared for the first time, still, and no more: what is kept is found where it may be, and answers stay the same."""
    declared = "You are a careful librarian who answers in one short sentence and never invents a book that does not exist."
    ask = {"model": MODEL, "prompt": declared + " Which book is about whales?", "max_tokens": 8, "temperature": 0}
    (tmp_path / "declared").write_text(declared)
    flags = ("--model", f"{MODEL}={require_model(MODEL)}", "--prompt-cache", tmp_path / "cache")
    shared = ("--shared-prefix", tmp_path / "declared")
    seen = []
    for more in ((), shared, shared, ()):
        with serving(strata, *flags, *more) as server:
            body = answer(server, COMPLETIONS, ask)
            again = answer(server, COMPLETIONS, ask)
            assert again["choices"] == body["choices"]
            seen.append((body["usage"]["prompt_tokens_details"]["cached_tokens"], body["choices"][0]["text"]))
    size = body["usage"]["prompt_tokens"]
    assert [hits for hits, _ in seen] == [0, size - 1, size - 1, 0] and len({text for _, text in seen}) == 1
