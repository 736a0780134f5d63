"""litellm, with both of its providers for servers like this one."""
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a table when imported

import litellm  # noqa: E402
import pytest  # noqa: E402

from shared import LONG_TEXT, MODEL  # noqa: E402

MESSAGES = [{"role": "user", "content": "Hello"}]


@pytest.fixture(params=["openai", "hosted_vllm"])
def settings(request, server):
    return {"model": f"{request.param}/{MODEL}", "api_base": f"{server.url}/v1", "api_key": "none", "max_retries": 0,
            "timeout": 120}


def test_completion(settings):
    answer = litellm.completion(messages=MESSAGES, max_tokens=8, temperature=0, **settings)
    assert answer.choices[0].message.content and answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream(settings):
    whole = litellm.completion(messages=MESSAGES, max_tokens=8, temperature=0, **settings)
    chunks = list(litellm.completion(messages=MESSAGES, max_tokens=8, temperature=0, stream=True,
                                     stream_options={"include_usage": True}, **settings))
    rebuilt = litellm.stream_chunk_builder(chunks, messages=MESSAGES)
    assert rebuilt.choices[0].message.content == whole.choices[0].message.content
    assert rebuilt.choices[0].finish_reason == whole.choices[0].finish_reason
    assert rebuilt.usage.completion_tokens == whole.usage.completion_tokens


def test_text_completion(server):
    answer = litellm.text_completion(model=f"text-completion-openai/{MODEL}", prompt="Once upon a", max_tokens=4,
                                     api_base=f"{server.url}/v1", api_key="none", timeout=120)
    assert answer.choices[0].text


def test_embedding(settings):
    answer = litellm.embedding(input=["a cat sat", "tax law"], **settings)
    assert len(answer.data) == 2 and len(answer.data[0]["embedding"]) == 576
    assert answer.usage.prompt_tokens > 0


def test_a_prompt_that_cannot_fit(settings):
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(messages=[{"role": "user", "content": LONG_TEXT}], **settings)


def test_an_unknown_field_is_named(settings):
    with pytest.raises(litellm.BadRequestError, match="colour"):
        litellm.completion(messages=MESSAGES, extra_body={"colour": "red"}, **settings)


def test_an_unknown_model(settings):
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(messages=MESSAGES, **{**settings, "model": settings["model"] + "-not"})
