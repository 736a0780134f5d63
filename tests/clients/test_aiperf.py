"""aiperf: its load comes through without an error and with the lengths it asked for."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from shared import MODEL

AIPERF = pathlib.Path(sys.executable).with_name("aiperf")
REQUESTS = 8
# Told to stay offline, it looks for tokenizers in the hub's cache only and not in a folder.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}


def profile(server, tokenizer_folder, folder, *arguments):
    """What `aiperf profile` exports of one run."""
    done = subprocess.run(
        [AIPERF, "profile", "--url", server.url, "--model", MODEL, "--tokenizer", tokenizer_folder,
         "--request-count", str(REQUESTS), "--concurrency", "2", "--isl", "64", "--ui", "none",
         "--artifact-dir", folder / "artifacts", *arguments],
        env=ENVIRONMENT, cwd=folder, text=True, timeout=1500, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-4000:]
    file, = (folder / "artifacts").rglob("profile_export_aiperf.json")
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert figures["request_count"]["avg"] == REQUESTS, figures
    assert not figures.get("error_summary"), figures["error_summary"]
    return figures


@pytest.mark.parametrize("endpoint, streaming", [("chat", True), ("chat", False), ("completions", True)])
def test_generation(server, tokenizer_folder, tmp_path, endpoint, streaming):
    figures = profile(server, tokenizer_folder, tmp_path, "--endpoint-type", endpoint, "--osl", "16",
                      "--extra-inputs", "ignore_eos:true", *(["--streaming"] if streaming else []))
    # Their tokenizer counts the text of the answer, which is what 16 tokens decode to, give or take a merge.
    assert figures["output_sequence_length"]["avg"] == pytest.approx(16, abs=1)
    if streaming:
        assert figures["time_to_first_token"]["avg"] > 0


def test_embeddings(server, tokenizer_folder, tmp_path):
    profile(server, tokenizer_folder, tmp_path, "--endpoint-type", "embeddings")
