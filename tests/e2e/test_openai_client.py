"""The official openai client against the server: every call of it that we serve, and what its exceptions become."""
import asyncio
import base64
import concurrent.futures
import math
import struct
import time

import httpx
import openai
import pytest

from api import is_idle, metrics, wait_until
from conftest import require_case
from serving import serving

GREEDY = "alpha beta😀 gamma delta epsilon"
HI = [{"role": "user", "content": "hi"}]
ENDLESS = [1, 270]


@pytest.fixture(scope="module")
def client(chain):
    with chain.client() as client:
        yield client


def chat(client, **fields):
    return client.chat.completions.create(**{"model": "chain", "messages": HI, "temperature": 0, **fields})


def complete(client, prompt, **fields):
    return client.completions.create(**{"model": "chain", "prompt": prompt, "temperature": 0, **fields})


def test_chat(client):
    reply = chat(client)
    [choice] = reply.choices
    assert (reply.object, reply.model) == ("chat.completion", "chain")
    assert reply.id.startswith("chatcmpl-") and abs(reply.created - time.time()) < 60 and reply.system_fingerprint
    assert (choice.index, choice.message.role, choice.message.content, choice.message.refusal) == (0, "assistant", GREEDY, None)
    assert (choice.finish_reason, choice.logprobs) == ("stop", None)
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens == 18
    assert reply._request_id


def test_request_id_is_taken_over(client):
    reply = chat(client, extra_headers={"X-Request-ID": "mine-42"})
    assert reply._request_id == "mine-42" and reply.id == "chatcmpl-mine-42"


def test_stream(client):
    chunks = list(chat(client, stream=True))
    assert {(chunk.object, chunk.model, chunk.usage) for chunk in chunks} == {("chat.completion.chunk", "chain", None)}
    assert len({(chunk.id, chunk.created) for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant" and all(chunk.choices[0].delta.role is None for chunk in chunks[1:])
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == GREEDY
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert chunks[-1].choices[0].delta.content is None     # the finish has an empty delta


def test_stream_helper(client):
    with client.chat.completions.stream(model="chain", messages=HI, temperature=0) as events:
        assert events.get_final_completion().choices[0].message.content == GREEDY


@pytest.mark.parametrize("continuous", [False, True])
def test_usage_in_streams(client, continuous):
    options = {"include_usage": True, **({"continuous_usage_stats": True} if continuous else {})}
    *chunks, last = list(chat(client, stream=True, stream_options=options))
    assert last.choices == [] and last.usage.completion_tokens == 12 and last.usage.prompt_tokens == 6
    assert chunks[-1].choices[0].finish_reason == "stop"
    if continuous:
        counts = [chunk.usage.completion_tokens for chunk in chunks]
        assert counts == sorted(counts) and counts[-1] == 12
    else:
        assert all(chunk.usage is None for chunk in chunks)


def test_stop_and_limits(client):
    assert chat(client, stop="gamma").choices[0].message.content == "alpha beta😀 "
    assert chat(client, stop=["x", " de"]).choices[0].message.content == "alpha beta😀 gamma"
    for limit in ({"max_tokens": 2}, {"max_completion_tokens": 2}, {"max_tokens": 2, "max_completion_tokens": 2}):
        reply = chat(client, **limit)
        assert (reply.choices[0].message.content, reply.choices[0].finish_reason, reply.usage.completion_tokens) == ("alpha beta", "length", 2)
    with pytest.raises(openai.BadRequestError):
        chat(client, max_tokens=2, max_completion_tokens=3)


def test_seeds(client):
    def roll(**fields):
        return complete(client, [1, 274], temperature=1, max_tokens=30, **fields).choices[0].text
    assert roll(seed=7) == roll(seed=7)
    assert len({roll(seed=7), roll(seed=8), roll(), roll()}) == 4
    assert roll(seed=-1) == roll(seed=-1)


@pytest.mark.parametrize("streamed", [False, True])
def test_several_choices(client, streamed):
    reply = chat(client, n=2, stream=streamed)
    if not streamed:
        assert [(choice.index, choice.message.content) for choice in reply.choices] == [(0, GREEDY), (1, GREEDY)]
        return
    texts, finishes, roles = {0: "", 1: ""}, {}, {0: 0, 1: 0}
    for chunk in reply:
        [choice] = chunk.choices
        assert choice.index not in finishes
        texts[choice.index] += choice.delta.content or ""
        roles[choice.index] += choice.delta.role == "assistant"
        if choice.finish_reason:
            finishes[choice.index] = choice.finish_reason
    assert texts == {0: GREEDY, 1: GREEDY} and finishes == {0: "stop", 1: "stop"} and roles == {0: 1, 1: 1}


# The wanted token has logit 20, the 285 others 0 (cases/common/CHAIN.md).
WANTED_LOGPROB = -math.log(1 + 285 * math.exp(-20))


@pytest.mark.parametrize("streamed", [False, True])
def test_chat_logprobs(client, streamed):
    reply = chat(client, logprobs=True, top_logprobs=2, stream=streamed, temperature=0.7)
    if streamed:
        content = [entry for chunk in reply for entry in ((chunk.choices[0].logprobs and chunk.choices[0].logprobs.content) or [])]
    else:
        content = reply.choices[0].logprobs.content
    tokens = [entry.token for entry in content]
    assert tokens[:2] + tokens[6:] == ["alpha", " beta", " gamma", " de", "lta", " eps", "ilon", "</s>"]
    assert tokens[2:6] == ["bytes:\\xf0", "bytes:\\x9f", "bytes:\\x98", "bytes:\\x80"]
    assert b"".join(bytes(entry.bytes) for entry in content[:-1]).decode() == GREEDY
    for entry in content:
        # Of the unmodified distribution, whatever the temperature.
        assert entry.logprob == pytest.approx(WANTED_LOGPROB, abs=1e-4)
        assert len(entry.top_logprobs) == 2 and entry.top_logprobs[0].token == entry.token
        assert entry.top_logprobs[1].logprob == pytest.approx(WANTED_LOGPROB - 20, abs=2e-2)


@pytest.mark.parametrize("streamed", [False, True])
def test_completion_logprobs(client, streamed):
    reply = complete(client, [1, 262], logprobs=2, max_tokens=7, stream=streamed)
    parts = [chunk.choices[0].logprobs for chunk in reply if chunk.choices[0].logprobs] if streamed else [reply.choices[0].logprobs]
    assert [token for part in parts for token in part.tokens] == [
        "alpha", " beta", "bytes:\\xf0", "bytes:\\x9f", "bytes:\\x98", "bytes:\\x80", " gamma"]
    assert [offset for part in parts for offset in part.text_offset] == [0, 5, 10, 10, 10, 10, 11]
    assert all(value == pytest.approx(WANTED_LOGPROB, abs=1e-4) for part in parts for value in part.token_logprobs)
    assert all(len(top) == 2 for part in parts for top in part.top_logprobs)


@pytest.mark.parametrize("streamed", [False, True])
def test_echo(client, streamed):
    reply = complete(client, "ab", echo=True, max_tokens=1, logprobs=0, stream=streamed, seed=1)
    choices = [chunk.choices[0] for chunk in reply] if streamed else [reply.choices[0]]
    text = "".join(choice.text for choice in choices)
    logprobs = [choice.logprobs for choice in choices if choice.logprobs]
    assert text.startswith("ab")
    tokens = [token for part in logprobs for token in part.tokens]
    values = [value for part in logprobs for value in part.token_logprobs]
    assert tokens[:3] == ["<s>", "a", "b"] and len(tokens) == 4
    assert values[0] is None and all(value < 0 for value in values[1:])


def test_echo_scores_a_prompt(client):
    """max_tokens 0 with echo: what lm-evaluation-harness asks."""
    reply = complete(client, [1, 262, 263, 264], echo=True, max_tokens=0, logprobs=1)
    [choice] = reply.choices
    assert choice.logprobs.tokens == ["<s>", "<|assistant|>", "alpha", " beta"]
    assert choice.logprobs.token_logprobs[2:] == [pytest.approx(WANTED_LOGPROB, abs=1e-4)] * 2
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (4, 0)


def test_completion_prompts_of_every_kind(client):
    def texts(prompt):
        reply = complete(client, prompt, max_tokens=3)
        assert [choice.index for choice in reply.choices] == list(range(len(reply.choices)))
        return [choice.text for choice in reply.choices]
    assert texts([1, 270]) == [" ping pong ping"]
    assert texts([[1, 270], [1, 262], [1, 270]]) == [" ping pong ping", "alpha beta\ufffd", " ping pong ping"]
    assert texts("a") == texts(["a"]) and len(texts(["a", "b"])) == 2
    assert texts("<|assistant|>") == ["alpha beta\ufffd"]
    assert complete(client, ENDLESS).usage.completion_tokens == 16     # OpenAI's default


@pytest.mark.parametrize("prompt", ["", [], [[]], [1.5], ["a", 1], {"a": 1}, [286], [-1]])
def test_prompts_that_are_none(client, prompt):
    if prompt == "":
        assert complete(client, prompt).usage.prompt_tokens == 1     # BOS alone
        return
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, prompt)
    assert caught.value.param == "prompt"


def test_embeddings(smollm2):
    client, model = smollm2.client(), "smollm2-135m"
    texts = ["a", "alpha", "a", "some longer text", "ü😀"]
    batch = client.embeddings.create(model=model, input=texts)
    assert [item.index for item in batch.data] == list(range(5))
    assert batch.usage.total_tokens == batch.usage.prompt_tokens
    assert all(len(item.embedding) == 576 for item in batch.data)
    tokens = 0
    for item, text in zip(batch.data, texts):
        single = client.embeddings.create(model=model, input=text, encoding_format="float")
        tokens += single.usage.prompt_tokens
        assert single.data[0].object == "embedding" and single.data[0].embedding == item.embedding
        assert sum(x * x for x in item.embedding) == pytest.approx(1, abs=1e-5)
    assert batch.usage.prompt_tokens == tokens
    assert batch.data[0].embedding == batch.data[2].embedding != batch.data[1].embedding
    ids = httpx.post(smollm2.url + "/tokenize", json={"text": "alpha"}).json()["ids"]
    assert client.embeddings.create(model=model, input=[ids, ids]).data[1].embedding == batch.data[1].embedding
    assert client.embeddings.create(model=model, input="a", dimensions=576).data[0].embedding == batch.data[0].embedding


@pytest.mark.parametrize("wrong", [{"input": []}, {"input": [9999]}, {"input": "a", "dimensions": 16}, {"input": "a" * 500}, {"input": [[]]}])
def test_embeddings_of_nothing_or_too_much(client, wrong):
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="chain", **wrong)


def test_embeddings_are_numbers_unless_base64_is_asked_for(chain):
    url = chain.url + "/v1/embeddings"
    plain = httpx.post(url, json={"model": "chain", "input": "a"}).json()["data"][0]["embedding"]
    coded = httpx.post(url, json={"model": "chain", "input": "a", "encoding_format": "base64"}).json()["data"][0]["embedding"]
    assert isinstance(plain, list) and struct.pack("<32f", *plain) == base64.b64decode(coded)


def test_models(client):
    [model] = client.models.list().data
    assert (model.id, model.object, model.owned_by) == ("chain", "model", "strata")
    assert client.models.retrieve("chain").id == "chain"


def test_second_turn_with_the_answer_sent_back(client):
    first = chat(client).choices[0].message
    messages = [*HI, first, {"role": "user", "content": "more"}]
    reply = client.chat.completions.create(model="chain", messages=messages, temperature=0)
    # 1 + (1 + 2 + 1) + (1 + bytes + 1) + (1 + 4 + 1) + 1
    assert reply.usage.prompt_tokens == 1 + 4 + len(GREEDY.encode()) + 2 + 6 + 1
    dumped = [*HI, {**first.model_dump(), "parsed": None, "reasoning_content": None}, {"role": "user", "content": "more"}]
    again = client.chat.completions.create(model="chain", messages=dumped, temperature=0).usage
    assert (again.prompt_tokens, again.completion_tokens) == (reply.usage.prompt_tokens, reply.usage.completion_tokens)
    assert again.prompt_tokens_details.cached_tokens == again.prompt_tokens - 1


def test_request_errors_become_their_exceptions(client):
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, temperature=-1)
    assert caught.value.param == "temperature" and "-1" in caught.value.message
    with pytest.raises(openai.NotFoundError) as caught:
        chat(client, model="nothing")
    assert caught.value.code == "model_not_found" and "chain" in caught.value.message
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, messages=[{"role": "user", "content": "a" * 500}])
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, extra_body={"surprise": 1})
    assert caught.value.param == "surprise"
    with pytest.raises(openai.NotFoundError):
        client.get("/nowhere", cast_to=object)


def test_wrong_key(strata, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("me:secret\n")
    with serving(strata, "--model", f"chain={require_case('common/chain.gguf')}", "--api-key-file", keys) as server:
        with pytest.raises(openai.AuthenticationError) as caught:
            chat(server.client(api_key="wrong"))
        assert caught.value.code == "invalid_api_key"
        assert chat(server.client(api_key="secret")).choices[0].message.content == GREEDY


@pytest.fixture(scope="module")
def narrow(strata):
    """One request at a time, one in the queue."""
    with serving(strata, "--model", f"chain={require_case('common/chain-long.gguf')}", "--max-running", 1, "--queue", 1,
                 "--kv-memory", "512MiB") as server:
        yield server


def endless_stream(client):
    stream = complete(client, ENDLESS, max_tokens=100_000, stream=True)
    next(iter(stream))
    return stream


def test_full_queue_is_429_at_once(narrow):
    client = narrow.client()
    running = endless_stream(client)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(complete, client, [1, 262])
        wait_until(lambda: metrics(narrow)["strata_requests_waiting"] == 1)
        begin = time.monotonic()
        with pytest.raises(openai.RateLimitError) as caught:
            complete(client, [1, 262])
        assert time.monotonic() - begin < 0.5
        assert caught.value.code == "queue_full" and 1 <= int(caught.value.response.headers["retry-after"]) <= 60
        running.close()
        assert waiting.result().choices[0].text == GREEDY
    wait_until(lambda: is_idle(narrow))


def test_client_retries_after_the_time_it_is_told(narrow):
    """max_retries 2: the second try, after Retry-After, finds room."""
    client = narrow.client()
    running = endless_stream(client)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(complete, client, [1, 262])
        wait_until(lambda: metrics(narrow)["strata_requests_waiting"] == 1)
        begin = time.monotonic()
        retried = pool.submit(complete, narrow.client(max_retries=2), [1, 262])
        time.sleep(0.3)
        running.close()
        assert retried.result().choices[0].text == waiting.result().choices[0].text == GREEDY
        assert 0.9 < time.monotonic() - begin < 10


def test_cancelling_a_stream_frees_its_place(narrow):
    client = narrow.client()
    before = metrics(narrow)['strata_requests_total{outcome="aborted"}']
    endless_stream(client).close()
    assert wait_until(lambda: is_idle(narrow)) < 1
    assert complete(client, [1, 262]).choices[0].text == GREEDY
    with pytest.raises(openai.APITimeoutError):
        complete(narrow.client(timeout=0.3), ENDLESS, max_tokens=100_000)
    assert wait_until(lambda: is_idle(narrow)) < 1
    assert metrics(narrow)['strata_requests_total{outcome="aborted"}'] == before + 2


def test_a_finished_stream_closed_early_is_no_cancellation(narrow):
    """The synchronous client closes its socket after [DONE]."""
    before = metrics(narrow)
    for _ in range(5):
        with narrow.client() as client:
            assert len(list(complete(client, [1, 262], stream=True))) > 3
    after = metrics(narrow)
    assert after['strata_requests_total{outcome="aborted"}'] == before['strata_requests_total{outcome="aborted"}']
    assert after['strata_requests_total{outcome="completed"}'] == before['strata_requests_total{outcome="completed"}'] + 5


def test_time_out_field(narrow):
    client = narrow.client()
    reply = complete(client, ENDLESS, max_tokens=100_000, extra_body={"timeout": 0.3})
    assert reply.choices[0].finish_reason == "timeout" and reply.choices[0].text.startswith(" ping pong")
    running = endless_stream(client)
    with pytest.raises(openai.InternalServerError) as caught:     # 503: it never began
        complete(narrow.client(max_retries=2), ENDLESS, extra_body={"timeout": 0.2})
    assert caught.value.status_code == 503 and caught.value.code == "timeout"
    running.close()


def test_async_client(chain):
    async def main():
        async with openai.AsyncOpenAI(base_url=chain.url + "/v1", api_key="none", max_retries=0) as client:
            replies = await asyncio.gather(*[client.chat.completions.create(model="chain", messages=HI, temperature=0) for _ in range(20)])
            stream = await client.chat.completions.create(model="chain", messages=HI, temperature=0, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        return {reply.choices[0].message.content for reply in replies} | {text}
    assert asyncio.run(main()) == {GREEDY}
