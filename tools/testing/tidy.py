"""clang-tidy over the changed files, or all of them.

A file that passed is remembered by a hash of its preprocessed text, so that only what changed is checked again.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time

from testing import BUILD_FOLDER, CORES, ROOT_FOLDER, state, strata_home
from testing.report import PhaseFailed, tail

# Bounds of the short run; what they leave over is named in the report, and --all=tidy does it.
MAX_CHANGED_FILES = 24
MAX_SECONDS = int(os.environ.get("TIDY_SECONDS", "360"))


def compile_commands():
    """The release build's database: source relative to the root -> (folder, words of the command)."""
    database = BUILD_FOLDER / "release" / "compile_commands.json"
    if not database.exists():
        raise PhaseFailed("clang-tidy needs build/release (scripts/build)")
    commands = {os.path.relpath(entry["file"], ROOT_FOLDER): (entry["directory"], shlex.split(entry["command"]))
                for entry in json.loads(database.read_text())}
    return {file: command for file, command in sorted(commands.items()) if not file.startswith("build/")}


def content_hash(command, rules):
    """Of all that decides the verdict: the source with its headers and comments, and the rules; None if unreadable."""
    folder, words = command
    output = words.index("-o")
    words = [word for index, word in enumerate(words) if index not in (output, output + 1) and word != "-c"]
    if os.path.basename(words[0]) == "ccache":
        words = words[1:]
    done = subprocess.run([*words, "-E", "-P", "-C"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)
    return hashlib.sha256(rules + done.stdout).hexdigest() if done.returncode == 0 else None


def rules_of(file):
    """What clang-tidy goes by for a file: its version and the .clang-tidy files of the folders above."""
    folders = [ROOT_FOLDER, *reversed((ROOT_FOLDER / file).parents[:-len(ROOT_FOLDER.parts)])]
    rules = [folder / ".clang-tidy" for folder in folders if (folder / ".clang-tidy").exists()]
    return clang_tidy_version() + b"".join(path.read_bytes() for path in rules)


@functools.cache
def clang_tidy_version():
    return subprocess.run(["clang-tidy", "--version"], capture_output=True).stdout


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
    files = sources_of(state.changed_files(state.comparison_base()), compile_commands())
    if len(files) > MAX_CHANGED_FILES:
        report.note(f"{len(files)} files changed, {MAX_CHANGED_FILES} are checked; --all=tidy checks all")
        files = files[:MAX_CHANGED_FILES]
    run_on(report, files, MAX_SECONDS)
    if not files:
        report.note("no C++ file changed")


def run_all(report):
    run_on(report, list(compile_commands()), float("inf"))


def run_on(report, files, seconds):
    deadline = time.monotonic() + seconds
    commands = compile_commands()
    passed_folder = strata_home() / "test-state" / "tidy"
    passed_folder.mkdir(parents=True, exist_ok=True)

    def check(file):
        """The output of a failed check, "" of a passed one, None if no time was left."""
        if time.monotonic() > deadline:
            return None
        content = content_hash(commands[file], rules_of(file))
        if content and (passed_folder / content).exists():
            return ""
        done = subprocess.run(["clang-tidy", "-p", "build/release", "--quiet", file], cwd=ROOT_FOLDER,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            return done.stdout or done.stderr or f"exit code {done.returncode}"
        if content:
            (passed_folder / content).touch()
        return ""

    late = []
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        for file, complaint in zip(files, pool.map(check, files)):
            if complaint is None:
                late.append(file)
            elif not complaint:
                report.ok()
            else:
                sys.stdout.write(tail(complaint, 30))
                report.fail(f"clang-tidy {file}")
    if late:
        report.note(f"no time was left for {len(late)} files (--all=tidy): {' '.join(late)}")
