"""Very long words: one token per byte whatever the text, and a 400 kB prompt stalls no stream (case C23)."""
import json
import random
import resource
import subprocess
import threading
import time

import pytest

from api import COMPLETIONS, error, metrics, stream, wait_until
from conftest import require_case, require_model
from serving import serving

SIZE = 400_000
TEXTS = {
    "same-letter": "a" * SIZE,
    "random-letters": "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=SIZE)),
    "spaces": " " * SIZE,
    "newlines": "\n" * SIZE,
    "digits": "7" * SIZE,
    "emoji": "\U0001F600" * (SIZE // 4),
    "cjk": "\u6c49\u5b57" * (SIZE // 6),
    "pairs": "ab" * (SIZE // 2),
    "punctuation": "!?" * (SIZE // 2),
    "normal": "the quick brown fox jumps over the lazy dog. " * (SIZE // 45),
}


@pytest.mark.parametrize("name", TEXTS)
def test_ids_of_a_long_word_and_back(strata, tmp_path, name):
    """The chain tokenizer: an id per byte and a BOS; the ids give the text back."""
    text = TEXTS[name]
    file = tmp_path / "text"
    file.write_text(text, encoding="utf-8", newline="")
    chain = require_case("common/chain.gguf")
    done = subprocess.run([strata, "tokenize", chain, "--file", file, "--json"], capture_output=True, text=True, timeout=60, check=True)
    ids = json.loads(done.stdout)["ids"]
    assert ids[0] == 1 and len(ids) == len(text.encode()) + 1


@pytest.mark.parametrize("model", ["smollm2-135m", "gemma3-270m"])
def test_long_words_with_the_real_tokenizers(strata, tmp_path, model):
    """Byte-level BPE and SentencePiece: the ids give the text back, and no text is out of proportion to the normal one."""
    path = require_model(model)
    seconds = {}
    for name, text in {"empty": "", **TEXTS}.items():
        file = tmp_path / name
        file.write_text(text, encoding="utf-8", newline="")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run([strata, "tokenize", path, "--file", file, "--json"], capture_output=True, text=True, timeout=120, check=True)
        seconds[name] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        ids = " ".join(map(str, json.loads(done.stdout)["ids"]))
        back = subprocess.run([strata, "tokenize", path, "--decode", "-", "--json"], input=ids, capture_output=True, text=True,
                              timeout=120, check=True)
        assert json.loads(back.stdout)["text"] == text, name
    # Without start-up at most 10 times. Five times that allows for noise; quadratic merging is off by thousands.
    assert max(seconds.values()) - seconds["empty"] < 50 * (seconds["normal"] - seconds["empty"]), seconds


@pytest.mark.bounds
def test_long_prompts_are_refused_while_a_stream_runs(strata):
    """The tokenizer works on a worker: the stream beside it goes on, whatever the text."""
    with serving(strata, "--model", f"smollm2-135m={require_model('smollm2-135m')}", "--context", 1024) as server:
        streams = []
        body = {"model": "smollm2-135m", "prompt": "Once", "max_tokens": 300, "temperature": 0, "ignore_eos": True}
        running = threading.Thread(target=lambda: streams.append(stream(server, COMPLETIONS, body)))
        running.start()
        wait_until(lambda: metrics(server)["strata_requests_running"] == 1)
        seconds = {}
        for name, text in TEXTS.items():
            begin = time.monotonic()
            found = error(server, COMPLETIONS, {"model": "smollm2-135m", "prompt": text}, 400)
            seconds[name] = time.monotonic() - begin
            assert found["code"] == "context_length_exceeded"
        running.join()
        [whole] = streams
        assert whole.finish_reason() == "length"
        # On a quiet machine: under 1 s and under 0.2 s. Five times that allows for neighbours, not for a stall.
        assert max(seconds.values()) < 5, seconds
        assert whole.largest_gap_s() < 1
