"""instructor: each of its modes needs tools or JSON, which are refused by name until they come whole."""
import instructor
import openai
import pydantic
import pytest

from shared import MODEL


class Answer(pydantic.BaseModel):
    """An answer."""
    city: str


@pytest.mark.parametrize("mode, param", [(instructor.Mode.TOOLS, "tools"), (instructor.Mode.JSON, "response_format"),
                                         (instructor.Mode.JSON_SCHEMA, "response_format")])
def test_modes_are_refused(server, mode, param):
    client = instructor.from_openai(server.client(), mode=mode)
    with pytest.raises(Exception) as caught:
        client.chat.completions.create(model=MODEL, response_model=Answer, max_retries=0,
                                       messages=[{"role": "user", "content": "Hello"}])
    cause = caught.value
    while cause is not None and not isinstance(cause, openai.BadRequestError):
        cause = cause.__cause__ or cause.__context__
    assert cause is not None, f"no BadRequestError behind {caught.value!r}"
    assert cause.code == "unsupported" and cause.param == param


def test_partial_streams_are_refused(server):
    client = instructor.from_openai(server.client(), mode=instructor.Mode.TOOLS)
    with pytest.raises(Exception, match="unsupported"):
        list(client.chat.completions.create_partial(model=MODEL, response_model=Answer, max_retries=0,
                                                    messages=[{"role": "user", "content": "Hello"}]))
