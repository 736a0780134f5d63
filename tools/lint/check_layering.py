#!/usr/bin/env python3
"""Checks every #include below src/ against the table of folders.

A folder may include the folders of its row and what those may include, never upward. Libraries are confined as
well: each belongs to the folders that put a thin face before it.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# folder: what it may include (and what those may include).
MAY_INCLUDE = {
    "base": [],
    "report": ["base"],
    "net": ["base"],
    "numeric": ["base"],
    "kernels": ["numeric"],
    "tensor": ["numeric"],
    "dist": ["tensor"],
    "ops": ["tensor", "kernels"],
    "exec": ["ops", "dist"],
    "io": ["tensor"],
    "model": ["exec", "io"],
    "text": ["io"],
    "adapt": ["model", "io"],
    "train": ["adapt", "text", "report", "net"],
    "compress": ["model", "io", "text", "report"],
    "export": ["model", "io"],
    "engine": ["adapt", "text", "report"],
    "server": ["engine", "net"],
    "eval": ["engine", "train", "compress", "report"],
    "bench": ["eval", "server", "export"],
    "cli": ["bench"],
}

# Libraries by the start of the header's name: the folders that may include it; None: every folder.
LIBRARIES = {
    "fmt/": None,
    "nlohmann/": None,
    "simdjson": ["base", "io", "text"],
    "toml++/": ["base"],
    "openssl/": ["base", "net"],
    "boost/": ["net"],
    "prometheus/": ["server"],
    "unicode/": ["text"],
    "pcre2.h": ["text"],
    "cairo": ["report"],
    "sqlite3.h": ["train", "report"],
    "CLI/": ["cli"],
    "immintrin.h": ["kernels"],
    "cpuid.h": ["base", "kernels"],
}
TEST_LIBRARIES = ("gtest/", "gmock/", "rapidcheck", "benchmark/")
# POSIX and Linux headers are the business of the folders that face the operating system.
SYSTEM_FOLDERS = ["base", "net", "bench", "cli"]
SYSTEM_HEADER = re.compile(r"^(sys|linux|netinet|arpa)/|^(unistd|fcntl|signal|pthread|sched|dirent|poll|netdb|termios|dlfcn|elf|link|spawn)\.h$")
STANDARD_HEADER = re.compile(r"^[a-z0-9_]+$")   # <vector>, <cstdint>: no suffix, no folder

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def reachable(folder):
    """Everything `folder` may include, itself too."""
    seen = {folder}
    waiting = [folder]
    while waiting:
        for below in MAY_INCLUDE[waiting.pop()]:
            if below not in seen:
                seen.add(below)
                waiting.append(below)
    return seen


def check_quoted(folder, header, is_test):
    """Why `folder` may not say #include "header"; None if it may."""
    if "/" not in header:
        return f'"{header}": name it from src/ on, as in "{folder}/{header}"'
    target = header.split("/")[0]
    if target == "support":
        return None if is_test else f'"{header}": tests/support is for tests'
    if target not in MAY_INCLUDE:
        return f'"{header}": {target} is no folder of the table in {pathlib.Path(__file__).name}'
    if target not in reachable(folder):
        return f'"{header}": {folder} may include only {" ".join(sorted(reachable(folder)))}'
    return None


def check_angled(folder, header, is_test):
    """Why `folder` may not say #include <header>; None if it may."""
    if STANDARD_HEADER.match(header):
        return None
    if header.startswith(TEST_LIBRARIES):
        return None if is_test else f"<{header}>: only tests may include it"
    if SYSTEM_HEADER.match(header):
        return None if folder in SYSTEM_FOLDERS or is_test else f"<{header}>: only {' '.join(SYSTEM_FOLDERS)} talk to the system"
    for start, folders in LIBRARIES.items():
        if header.startswith(start):
            return None if folders is None or folder in folders else f"<{header}>: only {' '.join(folders)} may include it"
    return f"<{header}>: a library the table in {pathlib.Path(__file__).name} does not know"


def check_file(path, source_folder):
    """Findings of one file as strings `path:line: why`."""
    folder = path.relative_to(source_folder).parts[0]
    is_test = path.stem.endswith(("_test", "_for_test")) or "_test_" in path.stem or path.stem.startswith("test_")
    findings = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            check = check_quoted if match[1] == '"' else check_angled
            why = check(folder, match[2], is_test)
            if why:
                findings.append(f"{path.relative_to(source_folder.parent)}:{number}: {why}")
    return findings


def check_tree(source_folder):
    findings = []
    for path in sorted(source_folder.rglob("*")):
        if path.suffix not in (".h", ".cpp", ".inc"):
            continue
        folder = path.relative_to(source_folder).parts[0]
        if folder not in MAY_INCLUDE:
            findings.append(f"{path.relative_to(source_folder.parent)}: src/{folder} is not in the table")
        else:
            findings += check_file(path, source_folder)
    return findings


if __name__ == "__main__":
    found = check_tree(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src")
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)
