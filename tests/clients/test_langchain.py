"""LangChain's OpenAI classes."""
import math

import langchain_core.exceptions
import openai
import pydantic
import pytest
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

from shared import LONG_TEXT, MODEL


@pytest.fixture
def settings(server):
    return {"base_url": f"{server.url}/v1", "api_key": "none", "model": MODEL, "max_retries": 0, "timeout": 120}


@pytest.fixture
def chat(settings):
    return ChatOpenAI(temperature=0, max_tokens=12, **settings)


def test_invoke(chat):
    message = chat.invoke("Hello")
    assert message.content and message.response_metadata["finish_reason"] in ("stop", "length")
    usage = message.usage_metadata
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_the_usage_of_a_stream_is_not_summed(chat):
    """LangChain adds up the usage of all chunks: only one of them may carry it."""
    whole = chat.invoke("Hello")
    chunks = list(chat.stream("Hello", stream_usage=True))
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    assert total.content == whole.content
    for count in ("input_tokens", "output_tokens", "total_tokens"):
        assert total.usage_metadata[count] == whole.usage_metadata[count]


def test_a_conversation_with_a_returned_message(chat):
    first = chat.invoke("Hello")
    assert chat.invoke([("system", "Be brief."), ("user", "Hello"), first, ("user", "Again")]).content


def test_a_prompt_that_cannot_fit_is_a_context_overflow(chat):
    with pytest.raises(langchain_core.exceptions.ContextOverflowError):
        chat.invoke(LONG_TEXT)


def test_tools_are_refused(chat):
    def weather(city: str) -> str:
        """The weather of a city."""
        return city

    with pytest.raises(openai.BadRequestError) as caught:
        chat.bind_tools([weather]).invoke("Hello")
    assert caught.value.code == "unsupported" and caught.value.param == "tools"


@pytest.mark.parametrize("method, param", [("function_calling", "tools"), ("json_mode", "response_format"),
                                           ("json_schema", "response_format")])
def test_structured_output_is_refused(chat, method, param):
    class Answer(pydantic.BaseModel):
        """An answer."""
        city: str

    with pytest.raises(openai.BadRequestError) as caught:
        chat.with_structured_output(Answer, method=method).invoke("Hello")
    assert caught.value.code == "unsupported" and caught.value.param == param


def test_completions(settings):
    """`OpenAI` sends its prompt as a list, and null for what nobody set."""
    assert OpenAI(temperature=0, max_tokens=4, **settings).invoke("Once upon a")


def test_embeddings(settings):
    """With its default, LangChain sends token ids of another model's vocabulary."""
    embeddings = OpenAIEmbeddings(check_embedding_ctx_length=False, **settings)
    one, two = embeddings.embed_documents(["a cat sat", "tax law"])
    assert len(one) == len(two) == 576 and one != two
    assert math.fsum(x * x for x in one) == pytest.approx(1, abs=1e-4)
