"""llama.cpp: llama-bench, llama-batched-bench and llama-completion of one build."""
import json
import shutil

import figures

NAME = "llama.cpp"
KINDS = {"prefill", "decode", "batch", "cold"}
TOOLS = ("llama-bench", "llama-batched-bench", "llama-completion")
HOW = ("unpack the source of the PyPI package llama-cpp-python (pip download --no-binary :all: --no-deps llama-cpp-python), "
       "in vendor/llama.cpp: cmake -B build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON && cmake --build build, "
       "then --llama vendor/llama.cpp/build/bin")


def tool(options, name):
    return shutil.which(name, path=options.llama)      # None as path: $PATH


def missing(options):
    absent = [name for name in TOOLS if not tool(options, name)]
    return f"no {', '.join(absent)} in {options.llama or 'PATH'}" if absent else None


def measure(options, work):
    return {"prefill": prefill, "decode": decode, "batch": batch, "cold": cold}[work.kind](options, work.sizes)


def bench(options, sizes, *arguments):
    """One repetition after llama-bench's own warm-up."""
    return figures.output_json([tool(options, "llama-bench"), "-m", sizes["model"], "-t", options.threads, "-r", 1, "-o", "json",
                                *arguments])[0]["avg_ts"]


def prefill(options, sizes):
    return bench(options, sizes, "-p", sizes["prompt"], "-n", 0)


def decode(options, sizes):
    depth = ["-d", sizes["context"], "-fa", "on"] if sizes["context"] > 1 else []
    return bench(options, sizes, "-p", 0, "-n", sizes["tokens"], *depth)


def batch(options, sizes):
    streams, context, tokens = sizes["streams"], sizes["context"], sizes["tokens"]
    text = figures.output([tool(options, "llama-batched-bench"), "-m", sizes["model"], "-t", options.threads,
                           "-c", streams * (context + tokens + 16), "-b", 2048, "-ub", 512, "-npp", context, "-ntg", tokens,
                           "-npl", streams, "--output-format", "jsonl"])
    [line] = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(line)["speed_tg"]


def cold(options, sizes):
    return figures.seconds_to_first_byte([tool(options, "llama-completion"), "-m", sizes["model"], "-p", "Hello", "-n", 1, "-no-cnv",
                                          "--no-display-prompt", "-t", options.threads])
