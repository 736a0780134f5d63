"""examples/gpt2_straight.cpp, compiled with -O3 -march=native -fopenmp: forward and backward, no optimizer's step."""
import functools
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

NAME = "gpt2_straight"
KINDS = {"train-gpt2"}
HOW = "a C++ compiler named by CXX, or g++"

SOURCE = pathlib.Path(__file__).parents[2] / "examples" / "gpt2_straight.cpp"


def compiler():
    return os.environ.get("CXX", "g++")


def missing(_options):
    return None if shutil.which(compiler()) else f"{compiler()} is not there"


@functools.cache
def program():
    folder = tempfile.TemporaryDirectory()      # goes with this process
    path = pathlib.Path(folder.name) / "gpt2_straight"
    subprocess.run([compiler(), "-std=c++20", "-O3", "-march=native", "-fopenmp", SOURCE, "-o", path], check=True)
    return folder, path


def measure(options, work):
    """Tokens/s; the first step, which warms up, is left out. Its sizes are the work's: 4 x 64 tokens of GPT-2."""
    done = subprocess.run([program()[1]], env={**os.environ, "OMP_NUM_THREADS": str(options.threads)}, capture_output=True, text=True, check=True)
    rates = [float(rate) for rate in re.findall(r"([0-9.]+) tokens/s", done.stdout)]
    return statistics.median(rates[1:])
