#!/usr/bin/env python3
"""Checks that each ISA object exports its kernel table and nothing else: check_isa_symbols.py BUILD_FOLDER

src/kernels/isa_*.cpp are compiled with -m flags. A weak symbol in such an object (an inline function, a template of
the standard library) may be the copy the linker keeps for the whole program: AVX-512 code on a machine without it.
So an object may define only tables as global symbols, names that hold `table`, and nothing weak or unique.
"""
import pathlib
import subprocess
import sys

TABLE_WORD = "table"
# nm's letters: W w V v weak, u unique (an inline variable), T D B R C G S global code and data.
WEAK = set("WwVvu")
GLOBAL = set("TDBRCGS")


def findings_of(nm_output, name):
    """Findings for the output of `nm --defined-only --demangle` on one object."""
    findings = []
    tables = 0
    for line in nm_output.splitlines():
        parts = line.split(maxsplit=2)
        if len(parts) != 3:
            continue
        kind, symbol = parts[1], parts[2]
        if kind in WEAK:
            findings.append(f"{name}: weak symbol {symbol}")
        elif kind in GLOBAL and TABLE_WORD in symbol.lower():
            tables += 1
        elif kind in GLOBAL:
            findings.append(f"{name}: exports {symbol}, which is no table")
    if not tables:
        findings.append(f"{name}: exports no table")
    return findings


def main(build_folder):
    objects = sorted(build_folder.glob("**/kernels/**/isa_*.o"))
    found = []
    for path in objects:
        listed = subprocess.run(["nm", "--defined-only", "--demangle", path], capture_output=True, text=True, check=True)
        found += findings_of(listed.stdout, path.name)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: check_isa_symbols.py BUILD_FOLDER")
    sys.exit(main(pathlib.Path(sys.argv[1])))
