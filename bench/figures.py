"""What the scripts here share: running programs, medians with their ranges, tables."""
import argparse
import json
import statistics
import subprocess
import time


def parser(doc, **options):
    """An argument parser whose help is the script's own text."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, **options)


def add_strata(arguments):
    arguments.add_argument("--strata", default="build/release/bin/strata", help="the strata program (%(default)s)")


def output(command):
    """What a program writes to stdout; what it wrote to stderr is shown when it fails."""
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def output_json(command):
    return json.loads(output(command))


def seconds_to_first_byte(command):
    """From the start of a program to the first byte of its stdout, which is then read to its end."""
    start = time.monotonic()
    with subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, bufsize=0) as process:
        first = process.stdout.read(1)
        seconds = time.monotonic() - start
        while process.stdout.read(1 << 16):
            pass
    if process.returncode != 0 or not first:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with status {process.returncode} after {len(first)} bytes")
    return seconds


def figure(value):
    """Four digits that count."""
    size = abs(value)
    return f"{value:.{0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3}f}"


def shown(values):
    """The median and the range of some repeats."""
    return f"{figure(statistics.median(values))} [{figure(min(values))}, {figure(max(values))}]"


def ratio(ours, theirs, lower_is_better=False):
    """Of the medians; above 1: ours is better."""
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    return theirs / ours if lower_is_better else ours / theirs


def table_header(*titles):
    return f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}"


def table_row(*cells):
    return f"| {' | '.join(map(str, cells))} |"
