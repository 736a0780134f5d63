"""Streams carry the same text and counts as whole answers: split characters, stop strings, usage (cases C01, C03, C05)."""
import concurrent.futures

import pytest

from api import CHAT, COMPLETIONS, answer, case_json, computed, metrics, stream

GREEDY = "alpha beta😀 gamma delta epsilon"


def whole_text(reply):
    choice = reply["choices"][0]
    return (choice["message"]["content"] if "message" in choice else choice["text"]), choice["finish_reason"]


def check_emoji_stream(streamed):
    assert streamed.text() == GREEDY and streamed.finish_reason() == "stop"
    assert not any("\ufffd" in delta for delta in streamed.deltas())
    assert sum("😀" in delta for delta in streamed.deltas()) == 1


def test_emoji_of_four_tokens_arrives_whole(chain):
    assert whole_text(answer(chain, CHAT, case_json("C01/whole.json"))) == (GREEDY, "stop")
    check_emoji_stream(stream(chain, CHAT, case_json("C01/stream.json")))


@pytest.mark.parametrize("name", ["completion-stream", "stream-logprobs"])
def test_emoji_of_four_tokens_in_completion_streams(chain, name):
    check_emoji_stream(stream(chain, COMPLETIONS, case_json(f"C01/{name}.json")))


def test_emoji_of_four_tokens_in_a_batch(chain):
    whole, streamed = case_json("C01/whole.json"), case_json("C01/stream.json")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        wholes = [pool.submit(answer, chain, CHAT, whole) for _ in range(8)]
        streams = [pool.submit(stream, chain, CHAT, streamed) for _ in range(8)]
        for reply in wholes:
            assert whole_text(reply.result()) == (GREEDY, "stop")
        for reply in streams:
            check_emoji_stream(reply.result())


def stop_bodies(stop, with_logprobs):
    """The same generation on both endpoints: (path, body)."""
    chat = {**case_json("C03/body.json"), "stop": stop}
    completion = {key: value for key, value in chat.items() if key != "messages"} | {"prompt": [1, 262], "max_tokens": 50}
    if with_logprobs:
        chat |= {"logprobs": True, "top_logprobs": 2}
        completion |= {"logprobs": 2}
    return [(CHAT, chat), (COMPLETIONS, completion)]


@pytest.mark.parametrize("with_logprobs", [False, True], ids=["plain", "logprobs"])
@pytest.mark.parametrize("entry", range(9))
def test_stop_strings_cut_exactly(chain, entry, with_logprobs):
    case = case_json("C03/cases.json")[entry]
    counts = set()
    for path, body in stop_bodies(case["stop"], with_logprobs):
        reply = answer(chain, path, {**body, "stream": False})
        assert whole_text(reply) == (case["content"], case["finish_reason"])
        streamed = stream(chain, path, {**body, "stream_options": {"include_usage": True}})
        # What was sent is what was meant: nothing of a stop string ever left.
        assert (streamed.text(), streamed.finish_reason()) == (case["content"], case["finish_reason"])
        assert [computed(reply["usage"])] == [computed(usage) for usage in streamed.usages()]
        counts.add(reply["usage"]["completion_tokens"])
    assert len(counts) == 1, counts


def test_number_of_stop_cases():
    assert len(case_json("C03/cases.json")) == 9


def test_text_is_not_held_back_for_a_stop_it_cannot_become(chain):
    """With stop "zzz" every delta carries its own token's text (the emoji comes with its last byte)."""
    path, body = stop_bodies("zzz", False)[0]
    texts = [delta for delta in stream(chain, path, body).deltas() if delta]
    assert texts == ["alpha", " beta", "😀", " gamma", " de", "lta", " eps", "ilon"]


def test_usage_is_equal_whole_and_streamed(chain):
    whole = answer(chain, CHAT, case_json("C05/whole.json"))["usage"]
    assert (whole["prompt_tokens"], whole["completion_tokens"], whole["total_tokens"]) == (21, 12, 33)
    assert 0 <= whole["prompt_tokens_details"]["cached_tokens"] <= 20
    assert whole["completion_tokens_details"]["reasoning_tokens"] == 0
    streamed = stream(chain, CHAT, case_json("C05/stream-usage.json"))
    [usage] = streamed.usages()
    assert computed(usage) == computed(whole) and usage["prompt_tokens_details"]["cached_tokens"] == 20, "all but the last"
    assert streamed.frames[-1]["choices"] == [] and streamed.frames[-1]["usage"] == usage
    assert stream(chain, CHAT, case_json("C05/stream-plain.json")).usages() == []


def test_usage_of_several_prompts_and_choices(chain):
    reply = answer(chain, COMPLETIONS, case_json("C05/two-prompts.json"))
    assert [choice["index"] for choice in reply["choices"]] == [0, 1]
    # Cut inside the emoji: one U+FFFD (docs/api.md).
    assert [choice["text"] for choice in reply["choices"]] == ["alpha beta\ufffd", " ping pong ping pong ping"]
    assert (reply["usage"]["prompt_tokens"], reply["usage"]["completion_tokens"]) == (4, 10)
    three = answer(chain, CHAT, case_json("C05/n3.json"))
    assert [choice["message"]["content"] for choice in three["choices"]] == [GREEDY] * 3
    assert (three["usage"]["prompt_tokens"], three["usage"]["completion_tokens"]) == (6, 36)


def test_counters_rise_by_requests_and_tokens(chain):
    before = metrics(chain)
    usages = [answer(chain, CHAT, case_json("C05/whole.json"))["usage"],
              stream(chain, CHAT, case_json("C05/stream-usage.json")).usages()[0],
              answer(chain, COMPLETIONS, case_json("C05/two-prompts.json"))["usage"],
              answer(chain, CHAT, case_json("C05/n3.json"))["usage"]]
    stream(chain, CHAT, case_json("C05/stream-plain.json"))
    usages.append(usages[0])
    after = metrics(chain)

    def rise(name):
        return after[name] - before[name]
    assert rise('strata_requests_total{outcome="completed"}') == 5
    assert rise('strata_tokens_total{direction="in"}') == sum(usage["prompt_tokens"] for usage in usages)
    assert rise('strata_tokens_total{direction="out"}') == sum(usage["completion_tokens"] for usage in usages)
