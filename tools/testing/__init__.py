"""What scripts/test runs: short phases (phases.py) and long tiers (tiers.py)."""
import os
import pathlib

ROOT_FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD_FOLDER = ROOT_FOLDER / "build"
LOG_FOLDER = BUILD_FOLDER / "test-logs"
CORES = len(os.sched_getaffinity(0))


def strata_home():
    home = os.environ.get("STRATA_HOME")
    return pathlib.Path(home) if home else pathlib.Path.home() / ".cache" / "strata"
