#!/usr/bin/env python3
"""Rules of the project that no compiler knows: file sizes, machine paths, left-over marks, #pragma once."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

MAX_LINES = 800                 # past it, ask which second topic moved in
MAX_BYTES = 600_000             # nothing large is committed; goldens are a few hundred kB
# Files that may be longer, each with its reason.
LONG_FILES = {}

SOURCE = {".cpp", ".h", ".py", ".sh", ".js", ".mjs", ".css", ".html", ".cmake"}
TEXT = SOURCE | {".md", ".txt", ".toml", ".json", ".yml", ".yaml", ""}
# Written in pieces so that this file does not find itself.
BANNED = [
    (re.compile(r"(?<![\w.])/" + r"(work|root|mnt)/\w"), "a path of one machine", TEXT),
    (re.compile(r"(?<![\w.])/home" + r"/\w"), "a path of one machine", TEXT),
    (re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b"), "a mark for later: write the limit down, or do it", SOURCE),
    (re.compile(r"^(<<<<" + r"<<<|>>>>" + r">>>) "), "a merge conflict", TEXT),
    (re.compile(r"[ \t]+$"), "blanks at the end of the line", SOURCE),
    (re.compile(r"^\t"), "a tab", {".cpp", ".h", ".py"}),
    (re.compile(r"\busing namespace\b"), "using namespace", {".cpp", ".h"}),
    (re.compile(r"-ffast" + r"-math"), "-ffast" + "-math: results must not depend on the compiler's mood", {".cmake", ".txt", ".json"}),
]
# Data that may hold anything: goldens, fuzz corpora, test inputs.
DATA_FOLDERS = ("tests/golden/", "tests/fuzz/corpus/", "tests/data/")


def project_files():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, check=True).stdout.decode()
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def check_file(name, content):
    """Findings of one file: `name[:line]: what`."""
    findings = []
    if len(content) > MAX_BYTES:
        findings.append(f"{name}: {len(content)} bytes; nothing over {MAX_BYTES} is committed")
    suffix = pathlib.PurePath(name).suffix
    if name.startswith(DATA_FOLDERS) or suffix not in TEXT or b"\0" in content:
        return findings
    lines = content.decode("utf-8", errors="replace").split("\n")
    if suffix in SOURCE and len(lines) - 1 > MAX_LINES and name not in LONG_FILES:
        findings.append(f"{name}: {len(lines) - 1} lines; over {MAX_LINES} a file needs a reason in {__file__}")
    if content and not content.endswith(b"\n"):
        findings.append(f"{name}: no newline at the end")
    # Kernel bodies (.inl.h) are included once per instruction set, each time inside another namespace.
    if suffix == ".h" and not name.endswith(".inl.h") and "#pragma once" not in lines:
        findings.append(f"{name}: no #pragma once")
    for number, line in enumerate(lines, 1):
        for pattern, what, suffixes in BANNED:
            if suffix in suffixes and pattern.search(line):
                findings.append(f"{name}:{number}: {what}: {line.strip()[:100]}")
    return findings


ANONYMOUS = re.compile(r"^namespace \{$.*?^\}  // namespace$", re.DOTALL | re.MULTILINE)
NAMESPACES = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
TYPE = re.compile(r"^(?:struct|class|enum class|union) (\w+)(?: final)?\s*(?::(?!:)[^;{()]*)?\{", re.MULTILINE)


def check_types(sources):
    """Two types of one name in one namespace: the linker would mix their templates (std::vector<Name>). `sources` are
    (name, text) of the program's files; what is in an unnamed namespace cannot be mixed."""
    first, findings = {}, []
    for name, text in sources:
        text = ANONYMOUS.sub("", text)
        namespace = "::".join(NAMESPACES.findall(text))
        for type_name in TYPE.findall(text):
            other = first.setdefault((namespace, type_name), name)
            if other != name:
                findings.append(f"{name}: {type_name} is a type of {other}, too")
    return findings


def program_sources(names):
    for name in names:
        path = pathlib.PurePath(name)
        tested_apart = path.stem.endswith(("_test", "_for_test")) or "wide_twin" in path.parts
        if path.parts[0] == "src" and path.suffix in (".h", ".cpp") and not name.endswith(".inl.h") and not tested_apart:
            yield name, (ROOT / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    files = project_files()
    found = [finding for name in files for finding in check_file(name, (ROOT / name).read_bytes())]
    found += check_types(program_sources(files))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)
