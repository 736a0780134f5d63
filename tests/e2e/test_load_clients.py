"""Requests as load generators send them, and what their tables are made of: times of first and later tokens, counts.

guidellm needs torch and is not among tests/clients; aiperf and genai-bench are, these keep their forms in the short tests.
"""
import pytest

from api import CHAT, COMPLETIONS, metrics, stream

TOKENS = 16
PARTS = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
TEXT = [{"role": "user", "content": "hi"}]
REQUESTS = {
    "guidellm-chat": (CHAT, {"messages": PARTS, "max_completion_tokens": TOKENS, "stop": None, "ignore_eos": True,
                             "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
    "guidellm-text": (COMPLETIONS, {"prompt": "<|assistant|>", "max_tokens": TOKENS, "stop": None, "ignore_eos": True,
                                    "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
    "aiperf-chat": (CHAT, {"messages": TEXT, "max_completion_tokens": TOKENS, "ignore_eos": True, "stream_options": {"include_usage": True}}),
    "genai-bench-chat": (CHAT, {"messages": TEXT, "max_tokens": TOKENS, "temperature": 0.0, "ignore_eos": True,
                                "stream_options": {"include_usage": True}}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_stream_that_is_timed(chain, name):
    path, fields = REQUESTS[name]
    before = metrics(chain)['strata_tokens_total{direction="out"}']
    found = stream(chain, path, {"model": "chain", "temperature": 0, **fields})
    assert all(frame["object"] == ("chat.completion.chunk" if path == CHAT else "text_completion") for frame in found.frames)
    if path == CHAT:
        assert ["role" in choice["delta"] for choice in found.choice_frames()] == [True] + [False] * (len(found.choice_frames()) - 1)
    # A frame for each token whose text can be told; the four of one character come in one.
    assert [text for text in found.deltas() if text][:4] == ["alpha", " beta", "\U0001F600", " gamma"]
    assert found.finish_reason() == "length"
    # The usage comes after finish_reason, and only there unless asked for in each frame.
    last = found.frames[-1]
    assert last["choices"] == [] and last["usage"]["completion_tokens"] == TOKENS
    counts = [usage["completion_tokens"] for usage in found.usages()]
    if fields["stream_options"].get("continuous_usage_stats"):
        assert len(counts) > TOKENS // 2 and counts == sorted(counts)
    else:
        assert counts == [TOKENS]
    assert metrics(chain)['strata_tokens_total{direction="out"}'] == before + TOKENS
