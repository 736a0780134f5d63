"""The prefix cache as clients see it: cached_tokens, chats turn by turn, keys apart, never another answer."""
import pytest

from api import CHAT, COMPLETIONS, answer, metrics, stream
from conftest import require_case, require_model
from serving import serving

MODEL = "smollm2-135m"
SYSTEM = "You are a guide in a museum of clocks. Answer briefly. " * 12


def cached(usage):
    return usage["prompt_tokens_details"]["cached_tokens"]


def essence(body):
    choice = body["choices"][0]
    return choice["text"], choice["logprobs"], choice["finish_reason"], body["usage"]["completion_tokens"]


@pytest.fixture(scope="module")
def server(strata):
    with serving(strata, "--model", f"{MODEL}={require_model(MODEL)}", "--context", 2048) as started:
        yield started


def test_a_chat_finds_its_earlier_turns(server):
    """>= 95 % of the tokens of earlier turns are cached, whole or streamed."""
    messages = [{"role": "system", "content": SYSTEM}]
    before = 0
    for turn, question in enumerate(["What is a verge escapement?", "And who made the first one?", "When was that?", "Thank you."]):
        messages.append({"role": "user", "content": question})
        body = {"model": MODEL, "messages": messages, "max_tokens": 24, "seed": turn, "temperature": 0.7}
        if turn % 2:
            got = stream(server, CHAT, {**body, "stream_options": {"include_usage": True}})
            usage, text = got.usages()[0], got.text()
        else:
            whole = answer(server, CHAT, body)
            usage, text = whole["usage"], whole["choices"][0]["message"]["content"]
        if before:
            assert cached(usage) >= 0.95 * before, (turn, usage)
        before = usage["prompt_tokens"]
        messages.append({"role": "assistant", "content": text})


def test_a_hit_changes_nothing(strata, server):
    """Cold, from the cache, and from a longer prompt's pages: the same text and logprobs."""
    body = {"model": MODEL, "prompt": "The clock on the wall had stopped, and nobody in the house could say when it", "seed": 5,
            "temperature": 0.9, "max_tokens": 20, "logprobs": 5, "ignore_eos": True}
    cold = answer(server, COMPLETIONS, body)
    assert cached(cold["usage"]) == 0
    warm = answer(server, COMPLETIONS, body)
    assert cached(warm["usage"]) == cold["usage"]["prompt_tokens"] - 1
    assert essence(warm) == essence(cold)
    shorter = {**body, "prompt": body["prompt"][:40]}
    hit = answer(server, COMPLETIONS, shorter)
    assert cached(hit["usage"]) > 0
    with serving(strata, "--model", f"{MODEL}={require_model(MODEL)}", "--context", 2048, "--prefix-cache", "off") as without:
        miss = answer(without, COMPLETIONS, shorter)
        assert cached(miss["usage"]) == 0 and essence(miss) == essence(hit)
        assert cached(answer(without, COMPLETIONS, shorter)["usage"]) == 0
        assert metrics(without)['strata_kv_pages{state="cached"}'] == 0


def test_echo_with_logprobs_reads_none(server):
    body = {"model": MODEL, "prompt": "Time and tide wait for no one at all", "max_tokens": 4, "logprobs": 2, "echo": True, "temperature": 0}
    first = answer(server, COMPLETIONS, body)
    again = answer(server, COMPLETIONS, body)
    assert cached(first["usage"]) == cached(again["usage"]) == 0
    assert again["choices"] == first["choices"]


def test_n_counts_the_prompt_once_and_shares_it(server):
    before = metrics(server)
    body = {"model": MODEL, "prompt": "A very particular beginning " * 20, "n": 4, "seed": 1, "max_tokens": 6, "ignore_eos": True}
    got = answer(server, COMPLETIONS, body)
    after = metrics(server)
    prompt = got["usage"]["prompt_tokens"]
    assert got["usage"]["completion_tokens"] == 24 and cached(got["usage"]) == 0
    assert len({choice["text"] for choice in got["choices"]}) > 1
    rows = after["strata_engine_rows_total"] - before["strata_engine_rows_total"]
    assert rows == prompt + 3 + 4 * 5, "the prompt once, its last token once more for each further choice, and the answers"


def test_keys_share_only_what_is_declared(strata, tmp_path):
    keys, prefix = tmp_path / "keys", tmp_path / "prefix"
    keys.write_text("ann:k1\nbob:k2\n")
    declared = "abcdefghijklmnopqrstuvwxyz " * 2
    prefix.write_text(declared)

    def ask(server, key, text):
        body = {"model": "chain", "prompt": text, "max_tokens": 1, "temperature": 0}
        return cached(answer(server, COMPLETIONS, body, Authorization=f"Bearer {key}")["usage"])

    flags = ("--model", f"chain={require_case('common/chain.gguf')}", "--api-key-file", keys)
    with serving(strata, *flags) as server:
        text = declared + "and mine"
        assert ask(server, "k1", text) == 0
        assert ask(server, "k1", text) == len(text)  # BOS and all letters but the last
        assert ask(server, "k2", text) == 0
    with serving(strata, *flags, "--shared-prefix", prefix) as server:
        assert ask(server, "k1", text) == 0
        assert ask(server, "k2", text) == 48, "the whole pages of BOS and 54 letters"
        assert ask(server, "k2", text) == len(text)
