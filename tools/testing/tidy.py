"""clang-tidy over the changed files, or all of them."""
import concurrent.futures
import json
import os
import subprocess
import sys
import time

from testing import BUILD_FOLDER, CORES, ROOT_FOLDER, state
from testing.report import PhaseFailed, tail

# Bounds of the short run; what they leave over is named in the report, and --all=tidy does it.
MAX_CHANGED_FILES = 24
MAX_SECONDS = int(os.environ.get("TIDY_SECONDS", "360"))


def compiled_files():
    """Sources of the release build, relative to the root."""
    database = BUILD_FOLDER / "release" / "compile_commands.json"
    if not database.exists():
        raise PhaseFailed("clang-tidy needs build/release (scripts/build)")
    files = {os.path.relpath(entry["file"], ROOT_FOLDER) for entry in json.loads(database.read_text())}
    return sorted(file for file in files if not file.startswith("build/"))


def sources_of(changed, compiled):
    """The compiled files to check for a list of changed ones; a header is checked through its own source."""
    wanted = set()
    for file in changed:
        stem, extension = os.path.splitext(file)
        if extension == ".cpp":
            wanted.add(file)
        elif extension == ".h":
            own = [f"{stem}.cpp", f"{stem}_test.cpp"]
            wanted.update([source for source in own if source in compiled][:1])
    return sorted(wanted & set(compiled))


def run_changed(report):
    files = sources_of(state.changed_files(state.comparison_base()), compiled_files())
    if len(files) > MAX_CHANGED_FILES:
        report.note(f"{len(files)} files changed, {MAX_CHANGED_FILES} are checked; --all=tidy checks all")
        files = files[:MAX_CHANGED_FILES]
    run_on(report, files, MAX_SECONDS)
    if not files:
        report.note("no C++ file changed")


def run_all(report):
    run_on(report, compiled_files(), float("inf"))


def run_on(report, files, seconds):
    deadline = time.monotonic() + seconds

    def check(file):
        if time.monotonic() > deadline:
            return None
        return subprocess.run(["clang-tidy", "-p", "build/release", "--quiet", file], cwd=ROOT_FOLDER,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)

    late = []
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        for file, done in zip(files, pool.map(check, files)):
            if done is None:
                late.append(file)
            elif done.returncode == 0:
                report.ok()
            else:
                sys.stdout.write(tail(done.stdout, 30))
                report.fail(f"clang-tidy {file}")
    if late:
        report.note(f"no time was left for {len(late)} files (--all=tidy): {' '.join(late)}")
