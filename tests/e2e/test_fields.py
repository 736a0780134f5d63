"""Every field of a request is honoured, neutral, a label or refused by name; nothing is ignored silently (docs/api.md)."""
import json

import pytest

from api import CHAT, COMPLETIONS, EMBEDDINGS, answer, error, post, stream, wait_until
from conftest import require_case
from serving import serving

HI = [{"role": "user", "content": "hi"}]
CHAT_BASE = {"model": "chain", "messages": HI, "temperature": 0}
TEXT_BASE = {"model": "chain", "prompt": [1, 262], "temperature": 0}
GREEDY = "alpha beta😀 gamma delta epsilon"

# What popular clients send unasked, and values that ask nothing.
ACCEPTED = [
    {"stream": False}, {"ignore_eos": False}, {"parallel_tool_calls": True}, {"parallel_tool_calls": False}, {"frequency_penalty": 0},
    {"presence_penalty": 0.0}, {"n": 1}, {"n": 1.0}, {"top_p": 1}, {"logprobs": None}, {"seed": None}, {"stop": None}, {"tools": None},
    {"tools": []}, {"tool_choice": "none"}, {"tool_choice": "auto"}, {"response_format": {"type": "text"}}, {"response_format": None},
    {"user": "u"}, {"safety_identifier": "s"}, {"metadata": {"a": "b"}}, {"prompt_cache_key": "k"}, {"store": False},
    {"service_tier": "auto"}, {"service_tier": "default"}, {"modalities": ["text"]}, {"verbosity": None}, {"prediction": None},
    {"audio": None}, {"web_search_options": None}, {"functions": None}, {"function_call": None}, {"top_k": 0}, {"top_k": -1},
    {"min_p": 0}, {"repetition_penalty": 1}, {"typical_p": 1}, {"parse_special": False}, {"timings": False}, {"priority": "normal"},
    {"timeout": 60}, {"kv_policy": "full"}, {"logit_bias": {}}, {"logit_bias": None}, {"max_tokens": None}, {"cache_prompt": True}, {"mirostat": 0},
    {"min_tokens": 0}, {"guided_json": None}, {"stop": []}, {"stop": ["zzz"]}, {"stream_options": None}, {"seed": -5}, {"seed": 2**63 - 1},
]

# (fields, param named in the refusal)
REFUSED = [
    ({"surprise": 1}, "surprise"), ({"surprise": None}, "surprise"), ({"store": True}, "store"), ({"service_tier": "flex"}, "service_tier"),
    ({"modalities": ["text", "audio"]}, "modalities"), ({"prediction": {"type": "content", "content": "x"}}, "prediction"),
    ({"audio": {}}, "audio"), ({"web_search_options": {}}, "web_search_options"), ({"verbosity": "low"}, "verbosity"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"), ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"), ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"functions": [{"name": "f"}]}, "functions"), ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"surprise": 1}}, "stream_options"), ({"stream": True, "stream_options": 5}, "stream_options"),
    ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": 1.5}, "max_tokens"), ({"max_tokens": -1}, "max_tokens"), ({"max_tokens": "5"}, "max_tokens"),
    ({"max_tokens": 1e30}, "max_tokens"), ({"max_completion_tokens": 0}, "max_completion_tokens"), ({"temperature": -0.1}, "temperature"),
    ({"temperature": "hot"}, "temperature"), ({"temperature": True}, "temperature"), ({"top_p": 1.1}, "top_p"), ({"top_k": 1.5}, "top_k"),
    ({"n": 0}, "n"), ({"n": 65}, "n"), ({"seed": 1.5}, "seed"), ({"seed": 2**80}, "seed"), ({"stop": 5}, "stop"), ({"stop": [""]}, "stop"),
    ({"stop": ["x"] * 17}, "stop"), ({"stop": [1]}, "stop"), ({"logprobs": 1}, "logprobs"), ({"top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"), ({"logit_bias": {"x": 1}}, "logit_bias"), ({"logit_bias": {"5": 101}}, "logit_bias"),
    ({"logit_bias": {"999": 1}}, "logit_bias"), ({"logit_bias": [1]}, "logit_bias"), ({"frequency_penalty": 3}, "frequency_penalty"),
    ({"presence_penalty": -3}, "presence_penalty"), ({"repetition_penalty": 0}, "repetition_penalty"), ({"stream": "yes"}, "stream"),
    ({"user": 5}, "user"), ({"metadata": "x"}, "metadata"), ({"chat_template_kwargs": {"unread": 1}}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"), ({"reasoning_effort": "high"}, "reasoning_effort"),
    ({"timeout": 0}, "timeout"), ({"kv_policy": "all"}, "kv_policy"), ({"priority": "urgent"}, "priority"), ({"n_probs": 3}, "n_probs"), ({"mirostat": 2}, "mirostat"),
    ({"min_tokens": 5}, "min_tokens"), ({"guided_json": {}}, "guided_json"), ({"best_of": 2}, "best_of"), ({"prompt": "x"}, "prompt"),
    ({"model": 5}, "model"), ({"model": None}, "model"), ({"messages": None}, "messages"), ({"messages": [5]}, "messages"),
]


def name_of(value):
    return json.dumps(value)[:60]


@pytest.mark.parametrize("fields", ACCEPTED, ids=name_of)
def test_fields_that_ask_nothing(chain, fields):
    assert answer(chain, CHAT, {**CHAT_BASE, **fields})["choices"][0]["message"]["content"] == GREEDY


@pytest.mark.parametrize("fields, param", REFUSED, ids=name_of)
def test_refusals_name_the_field(chain, fields, param):
    found = error(chain, CHAT, {**CHAT_BASE, **fields}, 400)
    assert found["param"] == param and param in found["message"] and found["type"] == "invalid_request_error"


def test_not_here_yet_is_unsupported(chain):
    for fields in ({"tools": [{"type": "function", "function": {"name": "f"}}]}, {"response_format": {"type": "json_schema"}}):
        assert error(chain, CHAT, {**CHAT_BASE, **fields}, 400)["code"] == "unsupported"
    assert "should_use_structured_outputs" in error(chain, CHAT, {**CHAT_BASE, "tool_choice": "required"}, 400)["message"]


@pytest.mark.parametrize("path, fields, param", [
    (COMPLETIONS, {"suffix": "x"}, "suffix"), (COMPLETIONS, {"best_of": 3}, "best_of"), (COMPLETIONS, {"echo": 1}, "echo"),
    (COMPLETIONS, {"logprobs": True}, "logprobs"), (COMPLETIONS, {"logprobs": 21}, "logprobs"), (COMPLETIONS, {"messages": HI}, "messages"),
    (COMPLETIONS, {"max_tokens": 0}, "max_tokens"), (COMPLETIONS, {"prompt": None}, "prompt"), (COMPLETIONS, {"tools": []}, "tools"),
    (EMBEDDINGS, {"encoding_format": "hex"}, "encoding_format"), (EMBEDDINGS, {"dimensions": 0}, "dimensions"), (EMBEDDINGS, {"temperature": 0}, "temperature"),
    (EMBEDDINGS, {"input": None}, "input"), (EMBEDDINGS, {"input": [[1, 9999]]}, "input")])
def test_refusals_of_the_other_endpoints(chain, path, fields, param):
    base = {"model": "chain", "input": "a"} if path == EMBEDDINGS else TEXT_BASE
    assert error(chain, path, {**base, **fields}, 400)["param"] == param


def test_completions_accept_what_asks_nothing(chain):
    body = {**TEXT_BASE, "max_tokens": 50, "suffix": None, "best_of": 1, "echo": False, "logprobs": None, "user": None, "n": 1}
    assert answer(chain, COMPLETIONS, body)["choices"][0]["text"] == GREEDY
    assert "echo" not in error(chain, CHAT, {**CHAT_BASE, "model": "other"}, 404)["message"]


def test_numbers_beyond_64_bits_are_no_whole_numbers(chain):
    for digits in ("18446744073709551616", "9" * 400, "1" + "0" * 300):
        body = b'{"model":"chain","prompt":[1,262],"seed":' + digits.encode() + b"}"
        assert error(chain, COMPLETIONS, body, 400)["type"] == "invalid_request_error"
    for word in (b"NaN", b"Infinity", b"-Infinity", b"1e400", b"01", b"+1", b".5", b"0x10"):
        error(chain, COMPLETIONS, b'{"model":"chain","prompt":[1,262],"temperature":' + word + b"}", 400)


@pytest.mark.parametrize("value", ["é" * 1000, "\U0001F600" * 500, "x" * 100_000], ids=["two-bytes", "four-bytes", "long"])
def test_what_was_sent_is_clipped_at_whole_characters(chain, value):
    for fields in ({value: 1}, {"temperature": value}, {"store": value}, {"model": value}, {"priority": value}, {"logit_bias": {value: 1}},
                   {"messages": [{"role": value, "content": "a"}]}, {"messages": [{"role": "user", "content": "a", value: 1}]},
                   {"messages": [{"role": "user", "content": [{"type": value}]}]}, {"chat_template_kwargs": {value: 1}}):
        for length in range(4):
            shifted = json.loads(json.dumps(fields, ensure_ascii=False).replace(value, "a" * length + value))
            response = post(chain, CHAT, {**CHAT_BASE, **shifted})
            assert response.status_code in (400, 404) and len(response.content) < 1500
            assert "\ufffd" not in response.content.decode("utf-8", "strict")


def count(server, messages):
    return answer(server, CHAT, {**CHAT_BASE, "messages": messages})["usage"]["prompt_tokens"]


def test_messages_of_every_form(chain):
    plain = count(chain, HI)
    assert count(chain, [{"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}]) == plain
    # developer is system.
    assert count(chain, [{"role": "developer", "content": "be brief"}, *HI]) == count(chain, [{"role": "system", "content": "be brief"}, *HI])
    label = {"name": None, "tool_calls": None, "tool_call_id": None}
    assert count(chain, [{**HI[0], **label}]) == plain
    reply = {"role": "assistant", "content": "yes", "refusal": None, "annotations": [], "audio": None, "function_call": None, "parsed": {"a": 1},
             "tool_calls": None, "reasoning_content": None, "reasoning": "because"}
    assert count(chain, [*HI, reply, *HI]) == count(chain, [*HI, {"role": "assistant", "content": "yes"}, *HI])


def test_null_content_of_the_assistant_is_no_text(chain):
    """Nothing is written for it, not the word None."""
    empty = count(chain, [*HI, {"role": "assistant", "content": ""}, *HI])
    assert count(chain, [*HI, {"role": "assistant", "content": None}, *HI]) == empty
    assert count(chain, [*HI, {"role": "assistant"}, *HI]) == empty


@pytest.mark.parametrize("message", [
    {"content": "a"}, {"role": None, "content": "a"}, {"role": 5, "content": "a"}, {"role": "", "content": "a"}, {"role": "user"},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, {"role": "user", "content": [{"text": "a"}]},
    {"role": "user", "content": ["a"]}, {"role": "user", "content": [{"type": "text", "text": "a", "b": 1}]}, {"role": "user", "content": {"a": 1}},
    {"role": "user", "content": "a", "surprise": 1}, {"role": "user", "content": "a", "tool_calls": 5}, {"role": "function", "content": "a"},
    {"role": "user", "content": "a", "name": 5}, {"role": "assistant", "content": "a", "audio": {"id": "x"}}], ids=name_of)
def test_messages_that_are_none(chain, message):
    assert error(chain, CHAT, {**CHAT_BASE, "messages": [message]}, 400)["param"] == "messages"


def test_logit_bias_and_penalties_work(chain):
    """A bias of 100 on ` pong` beats the logit 20 of the right token; -100 forbids."""
    assert answer(chain, COMPLETIONS, {**TEXT_BASE, "logit_bias": {"272": 100}, "max_tokens": 2})["choices"][0]["text"] == " pong pong"
    assert not answer(chain, COMPLETIONS, {**TEXT_BASE, "logit_bias": {"263": -100}, "max_tokens": 1})["choices"][0]["text"].startswith("alpha")
    # From the third token on ` ping` and ` pong` have come before: 20 / 100 is still more than 0.
    loop = {**TEXT_BASE, "prompt": [1, 270], "max_tokens": 8}
    assert answer(chain, COMPLETIONS, {**loop, "repetition_penalty": 100})["choices"][0]["text"] == " ping pong" * 4
    assert answer(chain, COMPLETIONS, {**loop, "frequency_penalty": 2})["choices"][0]["text"] == " ping pong" * 4


def test_ignore_eos_and_timings(chain):
    reply = answer(chain, COMPLETIONS, {**TEXT_BASE, "ignore_eos": True, "max_tokens": 20, "timings": True})
    assert reply["choices"][0]["finish_reason"] == "length" and reply["usage"]["completion_tokens"] == 20
    assert {"queue_ms", "prompt_ms", "generation_ms"} <= set(reply["timings"])
    streamed = stream(chain, COMPLETIONS, {**TEXT_BASE, "timings": True})
    assert "timings" in streamed.frames[-1]


def test_random_seed_is_told_and_repeats_the_answer(chain):
    body = {"model": "chain", "prompt": [1, 274], "max_tokens": 30}
    first = post(chain, COMPLETIONS, body)
    again = answer(chain, COMPLETIONS, {**body, "seed": int(first.headers["x-strata-seed"])})
    assert again["choices"][0]["text"] == first.json()["choices"][0]["text"]


def test_lenient_names_what_it_ignores(strata):
    with serving(strata, "--model", f"chain={require_case('common/chain.gguf')}", "--lenient") as server:
        response = post(server, CHAT, {**CHAT_BASE, "surprise": 1, "mirostat": 2, "bad\r\nname": 1})
        assert response.status_code == 200
        ignored = {name.strip() for name in response.headers["x-strata-ignored"].split(",")}
        assert {"surprise", "mirostat"} < ignored and len(ignored) == 3
        wait_until(lambda: "surprise" in server.log())
        assert "x-strata-ignored" not in post(server, CHAT, CHAT_BASE).headers
        # Wrong values of known fields stay errors.
        assert error(server, CHAT, {**CHAT_BASE, "temperature": "hot"}, 400)["param"] == "temperature"


def test_plain_endpoints(chain):
    reply = answer(chain, "/generate", {"prompt": "<|assistant|>", "temperature": 0, "max_tokens": 50})
    assert set(reply) == {"text", "finish_reason", "usage", "request_id"} and reply["text"] == GREEDY
    streamed = stream(chain, "/generate/stream", {"prompt": "<|assistant|>", "temperature": 0, "max_tokens": 50})
    assert "".join(frame["token"] for frame in streamed.frames[:-1]) == GREEDY
    assert set(streamed.frames[-1]) == {"finish_reason", "usage"} and streamed.frames[-1]["finish_reason"] == "stop"
    batch = answer(chain, "/generate/batch", {"requests": [{"prompt": "<|assistant|>", "temperature": 0, "max_tokens": 2}, {"prompt": "a", "surprise": 1},
                                                          {"prompt": "a" * 500}]})["results"]
    assert batch[0]["text"] == "alpha beta" and batch[1]["error"]["param"] == "surprise"
    assert batch[2]["error"]["code"] == "context_length_exceeded"
    tokens = answer(chain, "/tokenize", {"text": "hi"})
    assert tokens["ids"][0] == 1 and len(tokens["ids"]) == len(tokens["pieces"]) == 3
    assert answer(chain, "/detokenize", {"ids": tokens["ids"]})["text"] in ("hi", "<s>hi")
    error(chain, "/detokenize", {"ids": [99999]}, 400)


def test_context_errors_name_the_field_that_is_too_long(chain):
    assert error(chain, CHAT, {**CHAT_BASE, "messages": [{"role": "user", "content": "a" * 500}]}, 400)["param"] == "messages"
    assert error(chain, COMPLETIONS, {**TEXT_BASE, "prompt": "a" * 500}, 400)["param"] == "prompt"
    assert error(chain, EMBEDDINGS, {"model": "chain", "input": "a" * 500}, 400)["param"] == "input"
