"""lm-evaluation-harness: its model `local-completions` on tasks of our own, one for each way in which it asks."""
import json
import math

import lm_eval
import lm_eval.api.instance
import lm_eval.api.registry
import lm_eval.tasks
import pytest
import requests
import yaml

from shared import MODEL

CAPITALS = [("France", "Paris"), ("Italy", "Rome"), ("Japan", "Tokyo"), ("Spain", "Madrid"), ("Russia", "Moscow"), ("Egypt", "Cairo")]
SERIES = [("Monday, Tuesday, Wednesday, Thursday,", " Friday"), ("one, two, three, four,", " five"), ("A, B, C, D,", " E")]
PROSE = "The sun was high over the village, and the children ran down the road to the river to swim."
SHUFFLED = "river the to sun the road, children and down high the swim. to over village was the the ran"

TASKS = {
    "choices": {
        "output_type": "multiple_choice", "doc_to_text": "The capital of {{country}} is", "doc_to_target": "{{answer}}",
        "doc_to_choice": ["Paris", "Rome", "Tokyo", "Madrid", "Moscow", "Cairo"], "metric_list": [{"metric": "acc"}],
    },
    "series": {
        "output_type": "generate_until", "doc_to_text": "{{start}}", "doc_to_target": "{{end}}",
        "generation_kwargs": {"until": [",", "\n"], "max_gen_toks": 8, "do_sample": False}, "metric_list": [{"metric": "exact_match"}],
    },
    "prose": {
        "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "byte_perplexity"}],
    },
}
DOCUMENTS = {
    "choices": [{"country": country, "answer": capital} for country, capital in CAPITALS],
    "series": [{"start": start, "end": end} for start, end in SERIES],
    "prose": [{"text": PROSE}, {"text": SHUFFLED}],
}


@pytest.fixture(scope="module")
def task_manager(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    for name, task in TASKS.items():
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS[name]), encoding="utf-8")
        source = {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}}, "test_split": "test"}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({**source, **task}), encoding="utf-8")
    return lm_eval.tasks.TaskManager(include_path=str(folder), include_defaults=False)


@pytest.fixture(scope="module")
def evaluate(server, tokenizer_folder, task_manager):
    """Runs one task; returns its figures and what was asked and answered for each document."""
    def run(task, **settings):
        arguments = {"model": MODEL, "base_url": f"{server.url}/v1/completions", "tokenizer": str(tokenizer_folder),
                     "tokenizer_backend": "huggingface", "max_length": 2048, "max_retries": 1, **settings}
        results = lm_eval.simple_evaluate(model="local-completions", model_args=arguments, tasks=[task], task_manager=task_manager,
                                          log_samples=True, bootstrap_iters=0)
        return results["results"][task], sorted(results["samples"][task], key=lambda sample: sample["doc_id"])
    return run


def answers(samples):
    return [sample["resps"] for sample in samples]


def test_multiple_choice(evaluate):
    figures, samples = evaluate("choices")
    assert figures["acc,none"] == 1
    for sample in samples:
        for (logprob, _), in sample["resps"]:
            assert float(logprob) < 0
    # The same figures, bit for bit, as text instead of ids, several in a request, several requests at once.
    for settings in ({"tokenized_requests": False}, {"batch_size": 4}, {"num_concurrent": 4}):
        assert answers(evaluate("choices", **settings)[1]) == answers(samples), settings


def test_generate_until(evaluate):
    figures, samples = evaluate("series")
    assert figures["exact_match,none"] == 1
    for settings in ({"tokenized_requests": False}, {"batch_size": 3}, {"num_concurrent": 3}):
        assert answers(evaluate("series", **settings)[1]) == answers(samples), settings


def test_rolling_loglikelihood(evaluate):
    figures, samples = evaluate("prose")
    prose, shuffled = (float(sample["resps"][0][0]) for sample in samples)
    assert shuffled < prose < 0
    total = sum(len(document["text"].encode()) for document in DOCUMENTS["prose"])
    assert figures["byte_perplexity,none"] == pytest.approx(math.exp(-(prose + shuffled) / total))


def test_scores_are_those_of_the_generated_tokens(server, tokenizer_folder):
    """What the model wrote itself, scored as a prompt, has the log probability it had when written, and is greedy."""
    model = lm_eval.api.registry.get_model("local-completions")(
        model=MODEL, base_url=f"{server.url}/v1/completions", tokenizer=str(tokenizer_folder), tokenizer_backend="huggingface")
    prompt = "Once upon a time, there"
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 8, "temperature": 0, "logprobs": 1}
    choice, = requests.post(f"{server.url}/v1/completions", json=body, timeout=60).json()["choices"]
    request = lm_eval.api.instance.Instance("loglikelihood", {}, (prompt, choice["text"]), 0)
    (logprob, is_greedy), = model.loglikelihood([request])
    assert is_greedy
    assert logprob == pytest.approx(math.fsum(choice["logprobs"]["token_logprobs"]), abs=1e-4)
