#!/usr/bin/env python3
"""Speed of strata's tokenizer against the Python package `tokenizers`: one text, one core, alternating.

    bench/tokenizer_speed.py --strata build/release/bin/strata --text wikitext2-test.txt SmolLM2-135M-Instruct.Q4_1.gguf

For models with a byte-level vocabulary (tokenizer.ggml.model gpt2) cut as SmolLM2's or GPT-2's. The package gets the same
vocabulary, read from the GGUF file, and the ids must be equal. Needs the packages tokenizers and gguf.
"""
import os
import time

import figures


def strings(field):
    return [bytes(field.parts[i]).decode() for i in field.data]


def package_tokenizer(path):
    """The file's vocabulary as a tokenizers.Tokenizer that takes control tokens in the text for text."""
    import gguf
    import tokenizers
    fields = gguf.GGUFReader(path).fields
    vocabulary = {piece: i for i, piece in enumerate(strings(fields["tokenizer.ggml.tokens"]))}
    merges = [tuple(merge.split(" ", 1)) for merge in strings(fields["tokenizer.ggml.merges"])]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges))
    steps = [tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    pre = strings(fields["tokenizer.ggml.pre"])[0]
    if pre == "smollm":
        steps.insert(0, tokenizers.pre_tokenizers.Digits(individual_digits=True))
    elif pre != "gpt-2":
        raise SystemExit(f"{path}: tokenizer.ggml.pre is {pre}, wanted smollm or gpt-2")
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(steps)
    return tokenizer


def main():
    parser = figures.parser(__doc__)
    parser.add_argument("model", metavar="MODEL.gguf")
    figures.add_strata(parser)
    parser.add_argument("--text", required=True, help="a UTF-8 file")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # strata's processes inherit it
    with open(options.text, encoding="utf-8", newline="") as file:
        text = file.read()
    size = len(text.encode())
    package = package_tokenizer(options.model)
    ours, theirs = [], []
    for _ in range(options.repeats):
        command = [options.strata, "tokenize", options.model, "--file", options.text, "--json"]
        answer = figures.output_json(command)
        ours.append(size / answer["timings"]["encode_ms"] / 1e3)
        start = time.monotonic()
        ids = package.encode(text, add_special_tokens=False).ids
        theirs.append(size / (time.monotonic() - start) / 1e6)
        if ids != answer["ids"]:
            raise SystemExit("the ids differ: the speeds mean nothing")
    print(f"{size} bytes, {len(ids)} tokens, one core, median of {options.repeats} [range], MB/s:")
    for name, rates in (("strata", ours), ("tokenizers", theirs)):
        print(f"  {name}: {figures.shown(rates)}")
    print(f"  ratio {figures.ratio(ours, theirs):.1f}")


if __name__ == "__main__":
    main()
