"""A prompt that does not fit is refused with both numbers and never cut; one that fits is clamped to the room (case C11)."""
import time

import httpx
import pytest

from api import CHAT, COMPLETIONS, answer, case_json, computed, error, post, stream

LIMIT = 128


def check_refusal(found, prompt_tokens):
    assert (found["code"], found["type"]) == ("context_length_exceeded", "invalid_request_error")
    asked = prompt_tokens + 1
    assert found["message"] == (f"This model's maximum context length is {LIMIT} tokens, but the request needs {asked} "
                                f"({prompt_tokens} prompt + 1 to generate) (context_length_exceeded).")


def with_letters(letters):
    body = case_json("C11/body.json")
    return {**body, "messages": [{"role": "user", "content": "a" * letters}]}


@pytest.mark.parametrize("entry", range(6))
def test_chat_prompts_around_the_limit(chain, entry):
    case = case_json("C11/cases.json")[entry]
    body = with_letters(case["letters"])
    if case["status"] == 200:
        usage = answer(chain, CHAT, body)["usage"]
        assert usage["prompt_tokens"] == case["prompt_tokens"]
        assert usage["completion_tokens"] == LIMIT - case["prompt_tokens"]
        streamed = stream(chain, CHAT, {**body, "stream_options": {"include_usage": True}})
        assert streamed.finish_reason() == "length" and [computed(last) for last in streamed.usages()] == [computed(usage)]
    else:
        check_refusal(error(chain, CHAT, body, 400), case["prompt_tokens"])
        # A stream that cannot begin is a plain error.
        check_refusal(error(chain, CHAT, {**body, "stream": True}, 400), case["prompt_tokens"])


@pytest.mark.parametrize("letters", [125, 126, 127, 128, 200, 100000])
def test_completion_prompts_around_the_limit(chain, letters):
    prompt_tokens = letters + 1
    body = {"model": "chain", "prompt": "a" * letters, "temperature": 0, "max_tokens": 1}
    if prompt_tokens < LIMIT:
        assert answer(chain, COMPLETIONS, body)["usage"]["prompt_tokens"] == prompt_tokens
    else:
        check_refusal(error(chain, COMPLETIONS, body, 400), prompt_tokens)
        check_refusal(error(chain, COMPLETIONS, {**body, "stream": True}, 400), prompt_tokens)


@pytest.mark.bounds
def test_the_largest_is_refused_at_once(chain):
    body = with_letters(100_000)
    best = min(_seconds(lambda: error(chain, CHAT, body, 400)) for _ in range(3))
    assert best < 0.2


def _seconds(work):
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def test_max_tokens_is_clamped_to_the_room(chain):
    """100 prompt tokens and 100 asked for: 28 are generated on both endpoints (docs/api.md)."""
    chat = {**case_json("C11/max.json"), "ignore_eos": True}
    for path, body in ((CHAT, chat), (COMPLETIONS, {"model": "chain", "prompt": [1] * 99 + [270], "temperature": 0, "max_tokens": 100})):
        reply = answer(chain, path, body)
        assert reply["choices"][0]["finish_reason"] == "length"
        assert (reply["usage"]["prompt_tokens"], reply["usage"]["completion_tokens"]) == (100, 28)


@pytest.mark.parametrize("place", ["system", "early", "many"])
def test_nothing_is_dropped_from_long_chats(chain, place):
    long = {"role": "system" if place == "system" else "user", "content": "a" * 200}
    short = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    messages = {"system": [long, short[0]], "early": [long, *short[::-1], short[0]], "many": short * 20}[place]
    count = 2 + sum(len(message["content"]) + 2 for message in messages)
    check_refusal(error(chain, CHAT, {"model": "chain", "messages": messages}, 400), count)


def test_models_show_the_context_length(chain):
    model = httpx.get(chain.url + "/v1/models").json()["data"][0]
    assert (model["id"], model["object"], model["context_length"]) == ("chain", "model", LIMIT)
    assert post(chain, CHAT, with_letters(1)).status_code == 200
