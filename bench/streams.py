#!/usr/bin/env python3
"""Tokens per second of `strata serve` with many answers at once, against one at a time.

    bench/streams.py --strata build/release/bin/strata MODEL.gguf

Every request has a prompt of its own and is answered at temperature 0. A rate is all generated tokens over the time from
the first request to the last answer, prompts included; the median of the repeats.
"""
import concurrent.futures
import statistics
import time

import figures
from serving import serving


def rate(server, streams, tokens):
    prompts = [f"Count on from {100 + 7 * i}: {100 + 7 * i}, {101 + 7 * i}, {102 + 7 * i}," for i in range(streams)]
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        start = time.monotonic()
        answers = list(pool.map(lambda prompt: server.generate(prompt, tokens), prompts))
        seconds = time.monotonic() - start
    return sum(answer["usage"]["completion_tokens"] for answer in answers) / seconds


def main():
    parser = figures.parser(__doc__)
    parser.add_argument("model", metavar="MODEL.gguf")
    figures.add_strata(parser)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 32, 64])
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with serving(options.strata, options.model, "--kv-memory", "512MiB", "--context", "2048",
                 "--max-running", max(options.streams)) as server:
        server.generate("Hello", 8)
        one = None
        for streams in options.streams:
            median = statistics.median(rate(server, streams, options.tokens) for _ in range(options.repeats))
            one = one or median
            print(f"{streams} streams: {median:.1f} tokens/s, {median / one:.2f} times {options.streams[0]}", flush=True)


if __name__ == "__main__":
    main()
