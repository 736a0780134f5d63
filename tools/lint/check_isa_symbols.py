#!/usr/bin/env python3
"""Checks what each ISA object exports and which instructions it holds: check_isa_symbols.py BUILD_FOLDER

src/kernels/isa_*.cpp are compiled with -m flags. A weak symbol in such an object (an inline function, a template of
the standard library) may be the copy the linker keeps for the whole program: AVX-512 code on a machine without it.
So an object may define only tables as global symbols, names that hold `table`, and nothing weak or unique.

And no object may hold instructions above its level, nor do without those it is there for: that the right flags reached
the compiler shows even on a machine that cannot run the code.
"""
import pathlib
import re
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


# Marks of instruction sets in objdump's text: the operands of AVX-512's encoding (its registers, masks, broadcasts).
AVX = r"%ymm|\sv[a-z0-9]+ .*%xmm"
AVX512 = r"%zmm|vmovdq[au](?:8|16|32|64)\b|%[xy]mm(?:1[6-9]|2\d|3[01])|\{%k|\{1to"
VNNI = r"vpdpbusd"
BF16 = r"vdpbf16ps|vcvtne2?ps2?.*bf16"

# Level: what none of its objects may hold, and what an object of a family must.
INSTRUCTIONS = {
    "scalar": ((AVX, AVX512, VNNI, BF16), {}),
    "avx2": ((AVX512, VNNI, BF16), {"matmul": r"vpmaddubsw .*%ymm", "gemm": r"vfmadd\w+ .*%ymm"}),
    "avx_vnni": ((AVX512, BF16), {"matmul": r"vpdpbusd .*%ymm", "probe": r"vpdpbusd .*%ymm"}),
    "avx512": ((VNNI, BF16), {"matmul": r"vpmaddubsw .*%zmm", "gemm": r"vfmadd\w+ .*%zmm",
                              "attention": r"vfmadd\w+ .*%zmm", "rows": r"%zmm", "train_rows": r"%zmm",
                              "train_attention": r"vfmadd\w+ .*%zmm", "probe": r"vpmaddubsw .*%zmm"}),
    "avx512_vnni": ((BF16,), {"matmul": r"vpdpbusd .*%zmm", "matmul_few": r"vpdpbusd .*%ymm", "probe": r"vpdpbusd .*%zmm"}),
    "avx512_bf16": ((), {"matmul": r"vdpbf16ps .*%zmm", "gemm": r"vdpbf16ps .*%zmm"}),
}


def split_name(name):
    """The level and the family of isa_<level>_<family>.cpp.o."""
    stem = name.removeprefix("isa_").split(".")[0]
    level = max((level for level in INSTRUCTIONS if stem.startswith(level + "_")), key=len, default=None)
    return level, stem[len(level) + 1:] if level else stem


def instruction_findings(disassembly, name):
    """Findings for the output of `objdump -d --no-show-raw-insn` on one object."""
    level, family = split_name(name)
    if level is None:
        return [f"{name}: no level's name"]
    banned, wanted = INSTRUCTIONS[level]
    findings = []
    for pattern in banned:
        hit = re.search(rf"^.*(?:{pattern}).*$", disassembly, re.MULTILINE)
        if hit:
            findings.append(f"{name}: above its level: {' '.join(hit.group().split())}")
    if family in wanted and not re.search(wanted[family], disassembly):
        findings.append(f"{name}: no instruction like {wanted[family]}")
    return findings


def main(build_folder):
    objects = sorted(build_folder.glob("**/kernels/**/isa_*.o"))
    found = []
    for path in objects:
        listed = subprocess.run(["nm", "--defined-only", "--demangle", path], capture_output=True, text=True, check=True)
        found += findings_of(listed.stdout, path.name)
        code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
        found += instruction_findings(code.stdout, path.name)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: check_isa_symbols.py BUILD_FOLDER")
    sys.exit(main(pathlib.Path(sys.argv[1])))
