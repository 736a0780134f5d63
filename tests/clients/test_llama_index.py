"""LlamaIndex's class for servers like OpenAI's."""
import openai
import pydantic
import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from shared import MODEL


@pytest.fixture
def settings(server):
    return {"model": MODEL, "api_base": f"{server.url}/v1", "api_key": "none", "max_tokens": 8, "max_retries": 0,
            "timeout": 120, "context_window": 8192}


def test_chat(settings):
    llm = OpenAILike(is_chat_model=True, **settings)
    answer = llm.chat([ChatMessage(role="user", content="Hello")])
    assert answer.message.role == "assistant" and answer.message.content
    pieces = list(llm.stream_chat([ChatMessage(role="user", content="Hello")]))
    assert pieces[-1].message.content == "".join(piece.delta for piece in pieces)


def test_complete(settings):
    llm = OpenAILike(is_chat_model=False, **settings)
    whole = llm.complete("Once upon a", temperature=0).text
    assert whole
    assert list(llm.stream_complete("Once upon a", temperature=0))[-1].text == whole


def test_tools_are_refused(settings):
    def weather(city: str) -> str:
        """The weather of a city."""
        return city

    llm = OpenAILike(is_chat_model=True, is_function_calling_model=True, **settings)
    with pytest.raises(openai.BadRequestError) as caught:
        llm.chat_with_tools([FunctionTool.from_defaults(weather)], user_msg="Hello")
    assert caught.value.code == "unsupported" and caught.value.param == "tools"


def test_structured_output_is_refused(settings):
    class Answer(pydantic.BaseModel):
        """An answer."""
        city: str

    llm = OpenAILike(is_chat_model=True, should_use_structured_outputs=True, **settings)
    with pytest.raises(openai.BadRequestError) as caught:
        llm.as_structured_llm(Answer).chat([ChatMessage(role="user", content="Hello")])
    assert caught.value.code == "unsupported" and caught.value.param == "response_format"
