"""Peers that are Python packages: each runs in a process of its own, with the interpreter --peer-python names.

A peer's module is its own program: called with the sizes of a work as JSON it prints one JSON object {"value": ...}.
"""
import json
import os
import statistics
import subprocess
import sys
import time

SECONDS_PER_REPEAT = 0.3
REPEATS = 3


def missing_package(options, package):
    """Why `import package` fails there; None: it does not."""
    done = subprocess.run([options.peer_python, "-c", f"import {package}"], capture_output=True, text=True)
    return None if done.returncode == 0 else f"{options.peer_python}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}"


def run(options, file, work):
    """What `file` prints for this work, run as a program with so many threads."""
    threads = {name: str(options.threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    question = json.dumps({"kind": work.kind, "threads": options.threads, **{k: v if isinstance(v, int) else str(v) for k, v in work.sizes.items()}})
    done = subprocess.run([options.peer_python, file, question], env={**os.environ, **threads}, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{file} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])["value"]


def answer(measure):
    """The main function of a peer's program."""
    print(json.dumps({"value": measure(json.loads(sys.argv[1]))}))


def seconds_of(function):
    """Median of some repeats of a third of a second each, after one call that warms up."""
    function()
    start = time.perf_counter()
    function()
    calls = max(1, int(SECONDS_PER_REPEAT / max(time.perf_counter() - start, 1e-7)))
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def product_flops(sizes):
    return 2 * sizes["rows"] * sizes["out"] * sizes["in"]
