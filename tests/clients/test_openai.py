"""The official client, in each major version that is in use."""
import base64
import math
import struct

import openai
import pytest

from shared import CONTEXT_OVERFLOW_TEXT, LONG_TEXT, MODEL

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
TOOL = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


@pytest.fixture(scope="session")
def client(server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=120)


def chat(client, **fields):
    return client.chat.completions.create(model=MODEL, **{"messages": QUESTION, "max_completion_tokens": 16,
                                                          "temperature": 0, **fields})


def test_chat(client):
    answer = chat(client)
    assert answer.object == "chat.completion" and answer.model == MODEL
    choice, = answer.choices
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in ("stop", "length")
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 0 < usage.completion_tokens <= 16


def test_a_stream_is_the_whole_answer_in_pieces(client):
    whole = chat(client)
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason
    assert [c.usage for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].usage == whole.usage and chunks[-1].choices == []


def test_the_stream_helper_builds_the_same_answer(client):
    helper = client.chat.completions if hasattr(client.chat.completions, "stream") else client.beta.chat.completions
    # Ended by a stop string: the helper takes finish_reason "length" for a fault.
    whole = chat(client, stop=[","]).choices[0]
    assert whole.finish_reason == "stop"
    with helper.stream(model=MODEL, messages=QUESTION, max_completion_tokens=16, temperature=0, stop=[","]) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].message.content == whole.message.content


def test_a_second_turn_takes_the_returned_message(client):
    first = chat(client).choices[0].message
    again = chat(client, messages=[*QUESTION, first, {"role": "user", "content": "And of Italy?"}])
    assert again.choices[0].message.content
    assert again.usage.prompt_tokens > chat(client).usage.prompt_tokens


def test_several_choices(client):
    answer = chat(client, n=2, seed=5, temperature=1)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.choices[0].message.content != answer.choices[1].message.content


def test_logprobs(client):
    tokens = chat(client, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    for token in tokens:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        assert token.logprob == max(top.logprob for top in token.top_logprobs)  # temperature 0
        assert sum(math.exp(top.logprob) for top in token.top_logprobs) <= 1 + 1e-5


def test_completions(client):
    answer = client.completions.create(model=MODEL, prompt=["Once upon", "The sky is"], max_tokens=4, temperature=0,
                                       logprobs=2, suffix=None, echo=True)
    assert answer.object == "text_completion" and [c.index for c in answer.choices] == [0, 1]
    assert answer.choices[0].text.startswith("Once upon") and answer.choices[1].text.startswith("The sky is")
    logprobs = answer.choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset)
    assert "".join(logprobs.tokens) == answer.choices[0].text and logprobs.token_logprobs[0] is None


def test_completions_stop_at_sixteen_tokens_unless_told_otherwise(client):
    answer = client.completions.create(model=MODEL, prompt="One, two, three,", temperature=0,
                                       extra_body={"ignore_eos": True})
    assert answer.usage.completion_tokens == 16


def test_embeddings_are_the_same_in_each_encoding(client):
    texts = ["a cat sat", "tax law"]
    default = client.embeddings.create(model=MODEL, input=texts)
    floats = client.embeddings.create(model=MODEL, input=texts, encoding_format="float")
    packed = client.embeddings.create(model=MODEL, input=texts, encoding_format="base64")
    for one, two, three in zip(default.data, floats.data, packed.data, strict=True):
        raw = base64.b64decode(three.embedding)
        unpacked = struct.unpack(f"<{len(raw) // 4}f", raw)
        assert list(one.embedding) == pytest.approx(two.embedding, abs=1e-6)
        assert list(unpacked) == pytest.approx(two.embedding, abs=1e-6)
        assert math.fsum(x * x for x in unpacked) == pytest.approx(1, abs=1e-4)
    assert default.usage.prompt_tokens == default.usage.total_tokens > 0


def test_models(client):
    assert MODEL in [model.id for model in client.models.list()]
    assert client.models.retrieve(MODEL).object == "model"


@pytest.mark.parametrize("fields, error, status, code", [
    ({"model": "nobody"}, openai.NotFoundError, 404, "model_not_found"),
    ({"temperature": -1}, openai.BadRequestError, 400, "invalid_value"),
    ({"extra_body": {"colour": "red"}}, openai.BadRequestError, 400, "unknown_field"),
    ({"extra_body": {"best_of": 3}}, openai.BadRequestError, 400, "unsupported"),
    ({"tools": [TOOL]}, openai.BadRequestError, 400, "unsupported"),
    ({"response_format": {"type": "json_object"}}, openai.BadRequestError, 400, "unsupported"),
])
def test_refusals_name_their_reason(client, fields, error, status, code):
    with pytest.raises(error) as caught:
        client.chat.completions.create(**{"model": MODEL, "messages": QUESTION, **fields})
    assert caught.value.status_code == status and caught.value.code == code
    named = fields.get("extra_body") or fields
    assert caught.value.param == next(iter(named))


def test_parse_is_refused_until_there_is_structured_output(client):
    import pydantic

    class Answer(pydantic.BaseModel):
        city: str

    helper = client.chat.completions if hasattr(client.chat.completions, "parse") else client.beta.chat.completions
    with pytest.raises(openai.BadRequestError) as caught:
        helper.parse(model=MODEL, messages=QUESTION, response_format=Answer)
    assert caught.value.code == "unsupported" and caught.value.param == "response_format"


def test_a_prompt_that_cannot_fit(client):
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, messages=[{"role": "user", "content": LONG_TEXT}])
    assert caught.value.code == "context_length_exceeded"
    assert CONTEXT_OVERFLOW_TEXT in str(caught.value)


def test_a_request_id_is_taken_over(client):
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=1,
                                            extra_headers={"X-Request-Id": "from-the-client"})
    assert answer._request_id == "from-the-client"


def test_closing_a_stream_ends_its_work(client, running_requests):
    stream = chat(client, stream=True, max_completion_tokens=1500, extra_body={"ignore_eos": True})
    for _, _ in zip(range(3), stream):
        pass
    stream.close()
    assert running_requests.fall_to_zero()


def test_a_time_out_ends_its_work(client, running_requests):
    with pytest.raises(openai.APITimeoutError):
        chat(client, max_completion_tokens=1500, extra_body={"ignore_eos": True}, timeout=0.5)
    assert running_requests.fall_to_zero()
