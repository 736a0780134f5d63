#!/usr/bin/env python3
"""Compares strata with llama.cpp on one machine: prompt speed, generation speed and cold start, alternating.

    bench/compare_llama.py --strata build/release/bin/strata --llama LLAMA_CPP/build/bin MODEL.gguf ...

Prompt and generation of llama.cpp are llama-bench's pp512 and tg128; strata's are the timings of `strata run --json`
for a prompt of about 512 tokens and for 128 tokens after a short one. strata's runs are not warmed up, llama-bench's
are. Cold start is the life of a process that generates one token, the file in the page cache. Prints medians, the
range of each in brackets, and strata / llama.cpp (above 1: strata is faster).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

WORDS = "time people water day part number sound place year work back name good sentence line cause".split()
COUNTING = "Count to one thousand: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,"


def strata_run(strata, model, prompt, max_tokens, threads):
    command = [strata, "run", model, "--json", "--quiet", "--temperature", "0", "--prompt", prompt,
               "--max-tokens", str(max_tokens), "--threads", str(threads)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def prompt_of(tokens):
    return " ".join(WORDS[i * i % len(WORDS)] for i in range(tokens))


def strata_prompt_rate(options, model):
    answer = strata_run(options.strata, model, prompt_of(options.prompt_tokens), 1, options.threads)
    return answer["usage"]["prompt_tokens"] / answer["timings"]["prompt_ms"] * 1e3, answer


def strata_generation_rate(options, model):
    answer = strata_run(options.strata, model, COUNTING, options.generated_tokens + 1, options.threads)
    return (answer["usage"]["completion_tokens"] - 1) / answer["timings"]["generation_ms"] * 1e3, answer


def llama_rate(options, model, prompt, generated):
    command = [options.llama / "llama-bench", "-m", model, "-t", str(options.threads), "-p", str(prompt), "-n", str(generated),
               "-r", "1", "-o", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[0]["avg_ts"]


def life_seconds(command):
    start = time.monotonic()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - start


def shown(values, digits):
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


def compare(options, model):
    figures = {"prompt": ([], []), "generation": ([], []), "cold": ([], [])}
    answer = None
    for _ in range(options.repeats):
        rate, answer = strata_prompt_rate(options, model)
        figures["prompt"][0].append(rate)
        figures["prompt"][1].append(llama_rate(options, model, options.prompt_tokens, 0))
        rate, generated = strata_generation_rate(options, model)
        figures["generation"][0].append(rate)
        figures["generation"][1].append(llama_rate(options, model, 0, options.generated_tokens))
        figures["cold"][0].append(life_seconds(
            [options.strata, "run", model, "--quiet", "--prompt", "Hello", "--max-tokens", "1", "--threads", str(options.threads)]))
        figures["cold"][1].append(life_seconds(
            [options.llama / "llama-completion", "-m", model, "-p", "Hello", "-n", "1", "-no-cnv", "-t", str(options.threads)]))
    print(f"{pathlib.Path(model).name}: {answer['system_fingerprint']}, {options.threads} threads, "
          f"{answer['usage']['prompt_tokens']} prompt tokens, {generated['usage']['completion_tokens']} generated, "
          f"{options.repeats} runs each")
    print("| | strata | llama.cpp | ratio |\n|---|---|---|---|")
    for name, unit, digits in (("prompt", "tokens/s", 1), ("generation", "tokens/s", 1), ("cold", "s", 3)):
        ours, theirs = figures[name]
        ratio = statistics.median(ours) / statistics.median(theirs)
        if name == "cold":
            ratio = 1 / ratio
        print(f"| {name}, {unit} | {shown(ours, digits)} | {shown(theirs, digits)} | {ratio:.2f} |")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.gguf")
    parser.add_argument("--strata", required=True, help="the strata program")
    parser.add_argument("--llama", required=True, type=pathlib.Path, help="folder with llama-bench and llama-completion")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--generated-tokens", type=int, default=128)
    options = parser.parse_args()
    for model in options.models:
        compare(options, model)


if __name__ == "__main__":
    main()
