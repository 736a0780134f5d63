"""genai-bench: its load, chat and embeddings, comes through without a failed request and with the lengths it asked for."""
import json
import pathlib
import subprocess
import sys

from shared import MODEL

GENAI_BENCH = pathlib.Path(sys.executable).with_name("genai-bench")


def run(server, tokenizer_folder, folder, task, scenario, *arguments):
    """The aggregated figures of one run of 20 requests, four at a time."""
    done = subprocess.run(
        [GENAI_BENCH, "benchmark", "--api-backend", "vllm", "--api-key", "none", "--api-base", server.url, "--task", task,
         "--model-tokenizer", tokenizer_folder, "--api-model-name", MODEL, "--model", MODEL, "--traffic-scenario", scenario,
         "--max-time-per-run", "5", "--max-requests-per-run", "20", "--experiment-base-dir", folder,
         "--experiment-folder-name", "run", "--log-dir", folder, *arguments],
        cwd=folder, text=True, timeout=1500, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-4000:]
    file, = (path for path in (folder / "run").glob("*.json") if path.name != "experiment_metadata.json")
    return json.loads(file.read_text(encoding="utf-8"))["aggregated_metrics"]


def check_all_answered(figures):
    assert figures["num_error_requests"] == 0, figures["error_codes_frequency"]
    assert figures["num_completed_requests"] >= 20 and figures["num_requests"] == figures["num_completed_requests"]


def test_chat(server, tokenizer_folder, tmp_path):
    figures = run(server, tokenizer_folder, tmp_path, "text-to-text", "D(64,16)", "--num-concurrency", "4")
    check_all_answered(figures)
    lengths = figures["stats"]["num_output_tokens"]
    assert (lengths["min"], lengths["max"]) == (16, 16)  # ignore_eos, and the usage of the stream is what is counted
    assert figures["stats"]["num_input_tokens"]["min"] >= 64


def test_embeddings(server, tokenizer_folder, tmp_path):
    figures = run(server, tokenizer_folder, tmp_path, "text-to-embeddings", "E(32)", "--batch-size", "4")
    check_all_answered(figures)
    # Four texts of 32 tokens, cut out of longer ones: tokenized anew they may have one less here and there.
    assert 4 * 28 <= figures["stats"]["num_input_tokens"]["min"] <= figures["stats"]["num_input_tokens"]["max"] <= 4 * 36
