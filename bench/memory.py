#!/usr/bin/env python3
"""Peak memory of `strata serve` beside the limit: file x 1.15 + KV cache + 100 MB.

    bench/memory.py --strata build/release/bin/strata MODEL.gguf ...

Each model is served, then asked twice. The limit is printed without the KV cache, most of which is never touched here.
"""
import os
import pathlib

import figures
from serving import serving

PROMPT = "The quick brown fox jumps over the lazy dog. " * 40
MIB = 1 << 20


def main():
    parser = figures.parser(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL.gguf")
    figures.add_strata(parser)
    parser.add_argument("--kv-memory", default="64MiB")
    options = parser.parse_args()
    print("| model | file, MiB | peak loaded | peak after requests | of these anonymous | limit without KV |\n|---|---|---|---|---|---|")
    for model in options.models:
        with serving(options.strata, model, "--kv-memory", options.kv_memory) as server:
            loaded = server.memory_mib("VmHWM")
            for _ in range(2):
                server.generate(PROMPT, 16)
            size = os.path.getsize(model)
            print(f"| {pathlib.Path(model).stem} | {size / MIB:.0f} | {loaded:.0f} | {server.memory_mib('VmHWM'):.0f} | "
                  f"{server.memory_mib('RssAnon'):.0f} | {(size * 1.15 + 100e6) / MIB:.0f} |", flush=True)


if __name__ == "__main__":
    main()
