"""strata tokenizer train: the same ids and merges as the `tokenizers` package."""
import json
import random
import subprocess
import time

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from conftest import require_data


def strata_train(strata, data, out, vocabulary, *more):
    done = subprocess.run([strata, "tokenizer", "train", "--data", data, "--out", out, "--vocab", str(vocabulary), *more, "--json"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def package_train(data, vocabulary, specials):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train([str(data)], trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=specials, show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def compare(strata, data, out, vocabulary, specials, sample):
    strata_train(strata, data, out, vocabulary, *[a for s in specials for a in ("--special", s)])
    ours, theirs = Tokenizer.from_file(str(out)), package_train(data, vocabulary, specials)
    model, other = json.loads(out.read_text())["model"], json.loads(theirs.to_str())["model"]
    assert model["vocab"] == other["vocab"]
    assert [list(m) for m in model["merges"]] == [list(m) for m in other["merges"]]
    assert ours.encode(sample).ids == theirs.encode(sample).ids
    folder = out.parent / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(out.read_text())
    done = subprocess.run([strata, "tokenize", folder, "--text", sample, "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and json.loads(done.stdout)["ids"] == theirs.encode(sample).ids, done.stderr


def test_random_words(strata, tmp_path):
    # Few letters and short words: ties, overlaps and pieces that are spelled in two ways.
    draw = random.Random(5)
    data = tmp_path / "text.txt"
    data.write_text("\n".join(" ".join("".join(draw.choice("abc") for _ in range(draw.randint(1, 9))) for _ in range(12))
                              for _ in range(400)) + "\nnaïve 日本 🙂\t\ttwo  blanks \n")
    compare(strata, data, tmp_path / "tokenizer.json", 700, ["<|end|>", "<pad>"], "abcabc  bca🙂 naïve\n")


@pytest.mark.parametrize("vocabulary", [1000, 8192])
def test_shakespeare(strata, tmp_path, vocabulary):
    data = require_data("tinyshakespeare.txt")
    compare(strata, data, tmp_path / "tokenizer.json", vocabulary, [], "What's in a name? That which we call\n\n a rose")


def test_a_million_bytes_in_one_line(strata, tmp_path):
    data = tmp_path / "line.json"
    data.write_text(json.dumps([{"id": i, "text": f"word{i % 97} of line {i}"} for i in range(25000)]))
    begin = time.time()
    strata_train(strata, data, tmp_path / "tokenizer.json", 2000)
    assert time.time() - begin < 60     # seconds of work; hours where it is quadratic


def test_refused(strata, tmp_path):
    def status(*arguments):
        done = subprocess.run([strata, "tokenizer", "train", *map(str, arguments)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr
    (tmp_path / "empty").write_text("")
    assert status("--data", tmp_path / "none", "--out", tmp_path / "t")[0] == 3
    assert status("--data", tmp_path / "empty", "--out", tmp_path / "t")[0] == 3
    code, message = status("--data", tmp_path / "empty", "--out", tmp_path / "t", "--vocab", 100)
    assert code == 2 and "vocabulary is 100, wanted 256" in message
