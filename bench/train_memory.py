#!/usr/bin/env python3
"""Peak memory of a training step of the `shakespeare` preset beside PyTorch's, each a process of its own.

    bench/train_memory.py --strata build/release/bin/strata --peer-python VENV/bin/python

GPT of 10.8M parameters, steps of 16 x 256 tokens, AdamW, f32, eager mode; the same model and step as
`bench/compare --works train`; strata's run has a validation, a sample and a checkpoint too. PyTorch's program without a model is measured too: what importing it costs.
"""
import json
import os
import pathlib
import subprocess
import tempfile

import figures
import works

MIB = 1 << 20
PEER = pathlib.Path(__file__).parent / "peers" / "pytorch.py"


def peak_bytes(command, threads):
    """The largest resident memory of a program, as the kernel counted it."""
    environment = {**os.environ, **{name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}}
    process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with status {process.returncode}")
    return 1024 * usage.ru_maxrss


def main():
    parser = figures.parser(__doc__)
    figures.add_strata(parser)
    parser.add_argument("--peer-python", required=True, help="an interpreter that has torch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--train-batch", type=int, default=16, help="sequences of a step (%(default)s)")
    options = parser.parse_args()
    [work] = works.train(options, None)
    question = json.dumps({"kind": "train", "threads": options.threads, **work.sizes})
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text.txt"
        # As many characters as Tiny Shakespeare has, and enough of them for one validation.
        text.write_text("".join(chr(48 + i * 7919 % 65) for i in range(100_000)))
        ours = peak_bytes([options.strata, "train", "--preset", "shakespeare", "--data", text, "--out", f"{folder}/gpt", "--steps", 3, "--warmup", 0,
                           *works.GPT2_BLOCKS, "--batch", options.train_batch, "--threads", options.threads, "--quiet"], options.threads)
    theirs = peak_bytes([options.peer_python, PEER, question], options.threads)
    empty = peak_bytes([options.peer_python, "-c", "import torch; torch.randn(8, 8) @ torch.randn(8, 8)"], options.threads)
    print("| strata, MiB | PyTorch, MiB | of these importing it | ratio |\n|---|---|---|---|")
    print(f"| {ours / MIB:.0f} | {theirs / MIB:.0f} | {empty / MIB:.0f} | {ours / theirs:.2f} |")


if __name__ == "__main__":
    main()
