"""KV policies: windows, and sinks with a window, by server and by request."""
import json
import subprocess

import pytest

from api import COMPLETIONS, answer, error, metrics
from conftest import require_case, require_model
from serving import serving

MODEL = "smollm2-135m"
PROMPT = "One day the miller's daughter went to the well, and there sat a frog who wore a crown. " * 4
ASK = {"model": MODEL, "prompt": PROMPT, "max_tokens": 40, "temperature": 0, "logprobs": 2, "ignore_eos": True}


def essence(body):
    return json.dumps(body["choices"])


@pytest.mark.parametrize("policy", ["window=24", "sinks=4,window=24"])
def test_a_request_and_a_server_agree(strata, smollm2, policy):
    """The same bytes whether the policy is the request's or the server's, and not those of the full cache."""
    full = answer(smollm2, COMPLETIONS, ASK)
    own = answer(smollm2, COMPLETIONS, {**ASK, "kv_policy": policy})
    again = answer(smollm2, COMPLETIONS, {**ASK, "kv_policy": policy})
    assert essence(own) == essence(again) != essence(full)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0, "no prefixes are shared under a policy of one's own"
    assert essence(answer(smollm2, COMPLETIONS, {**ASK, "kv_policy": "full"})) == essence(full)
    with serving(strata, "--model", f"{MODEL}={require_model(MODEL)}", "--kv-policy", policy) as server:
        theirs = answer(server, COMPLETIONS, ASK)
        assert essence(theirs) == essence(own)
        assert policy in theirs["system_fingerprint"]
        assert essence(answer(server, COMPLETIONS, {**ASK, "kv_policy": policy})) == essence(own)
        assert error(server, COMPLETIONS, {**ASK, "kv_policy": "full"}, 400)["param"] == "kv_policy"
    done = subprocess.run([strata, "run", MODEL, "-p", PROMPT, "--kv-policy", policy, "--max-tokens", "40", "--temperature", "0", "--json"],
                          capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout)["text"] == own["choices"][0]["text"]


def test_policies_that_make_no_sense(strata, smollm2):
    for policy in ("windows", "window=0", "sinks=4", "sinks=8190,window=8190", 5):
        assert error(smollm2, COMPLETIONS, {**ASK, "kv_policy": policy}, 400)["param"] == "kv_policy"
    done = subprocess.run([strata, "run", MODEL, "-p", "a", "--kv-policy", "window"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--kv-policy" in done.stderr and "sinks=S,window=N" in done.stderr


def test_sinks_go_on_beyond_the_context_in_constant_memory(strata):
    """A model of 128 positions answers with 3,000 tokens; it never holds more than the sinks, the window and one step."""
    with serving(strata, "--model", f"chain={require_case('common/chain.gguf')}", "--kv-policy", "sinks=4,window=60", "--context", 5000,
                 "--batch-tokens", 64, "--max-running", 1, "--kv-memory", "64MiB") as server:
        got = answer(server, COMPLETIONS, {"model": "chain", "prompt": [1, 270], "max_tokens": 3000, "temperature": 0})
        assert got["usage"]["completion_tokens"] == 3000 and got["choices"][0]["finish_reason"] == "length"
        assert got["choices"][0]["text"] == " ping pong" * 1500
        now = metrics(server)
        pages = sum(value for name, value in now.items() if name.startswith("strata_kv_pages"))
        assert pages <= 1 + 8 + 1, "the pool itself holds no more than one such sequence"
