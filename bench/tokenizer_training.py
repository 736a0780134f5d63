#!/usr/bin/env python3
"""Training a byte-level BPE tokenizer: strata against the Python package `tokenizers`, on one text, in turns.

    bench/tokenizer_training.py --strata build/release/bin/strata --peer-python VENV/bin/python --text text.txt

Each a process of its own, with as many threads as it likes; the package's time is that of its training alone, without
importing it, strata's that of the whole command. The merges must be equal. Without --text: 10 MB of made-up words.
"""
import itertools
import json
import pathlib
import random
import subprocess
import tempfile
import time

import figures

PACKAGE = """
import json, sys, time
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
text, vocabulary, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
trainer = trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
begin = time.perf_counter()
tokenizer.train([text], trainer)
print(time.perf_counter() - begin)
tokenizer.save(out)
"""


def made_up_text(path, size):
    """Words whose frequencies fall as those of a language do (Zipf), a dozen a line."""
    draw = random.Random(1)
    syllables = [a + b for a in "b c d f g l m n p r s t th st tr v".split() for b in "a e i o u ea ou an er in".split()]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 5))) for _ in range(60_000)]
    weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(words))))
    with open(path, "w", encoding="utf-8") as file:
        written = 0
        while written < size:
            lines = "\n".join(" ".join(draw.choices(words, cum_weights=weights, k=12)).capitalize() + "." for _ in range(1000)) + "\n"
            written += file.write(lines)


def merges(path):
    return [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in json.loads(pathlib.Path(path).read_text())["model"]["merges"]]


def main():
    parser = figures.parser(__doc__)
    figures.add_strata(parser)
    parser.add_argument("--peer-python", required=True, help="an interpreter that has tokenizers")
    parser.add_argument("--text", help="a UTF-8 file")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = options.text or f"{folder}/text.txt"
        if not options.text:
            made_up_text(text, 10_000_000)
        ours, theirs = [], []
        for _ in range(options.repeats):
            begin = time.perf_counter()
            figures.output([options.strata, "tokenizer", "train", "--data", text, "--vocab", options.vocabulary, "--out", f"{folder}/ours.json", "--quiet"])
            ours.append(time.perf_counter() - begin)
            done = subprocess.run([options.peer_python, "-c", PACKAGE, text, str(options.vocabulary), f"{folder}/theirs.json"],
                                  capture_output=True, text=True, check=True)
            theirs.append(float(done.stdout))
        if merges(f"{folder}/ours.json") != merges(f"{folder}/theirs.json"):
            raise SystemExit("the merges differ: the times mean nothing")
        size = pathlib.Path(text).stat().st_size
    print(f"{size} bytes, vocabulary of {options.vocabulary}, median of {options.repeats} [range], seconds:")
    print(figures.table_header("strata", "tokenizers", "strata / tokenizers"))
    print(figures.table_row(figures.shown(ours), figures.shown(theirs), f"{figures.ratio(ours, theirs):.2f}"))


if __name__ == "__main__":
    main()
