"""At its peak a server needs no more than file x 1.15 + KV cache + 100 MB (docs/serving-engine.md)."""
import pytest
import requests

from conftest import require_model
from gguf_model import write_llama
from serving import serving

KV_MIB = 16
pytestmark = pytest.mark.bounds


def check_peak(strata, model, file_bytes):
    limit = file_bytes * 1.15 + KV_MIB * 2**20 + 100e6
    with serving(strata, "--model", f"m={model}", "--kv-memory", f"{KV_MIB}MiB", "--context", "512") as server:
        loaded = server.memory_bytes("VmHWM")
        for prompt in ("word1 word2 word3", "word4 " * 60):
            answer = requests.post(f"{server.url}/generate", json={"prompt": prompt, "max_tokens": 8}, timeout=120)
            assert answer.status_code == 200, answer.text
        used = server.memory_bytes("VmHWM")
    mb = 1e-6
    assert used <= limit, f"peak {loaded * mb:.0f} MB loaded, {used * mb:.0f} MB after requests; limit {limit * mb:.0f} MB"


def test_a_vocabulary_of_262144_tokens(strata, tmp_path):
    """Two tables of 107 MB: if one of them lay in memory twice, or the vocabulary several times, the peak would show it."""
    model = tmp_path / "big-vocabulary.gguf"
    check_peak(strata, model, write_llama(model, vocabulary=262144, hidden=384))


@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])
def test_the_catalogues_models(strata, name):
    model = require_model(name)
    check_peak(strata, model, model.stat().st_size)
