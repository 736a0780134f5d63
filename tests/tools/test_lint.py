"""The checkers of tools/lint find what they are for, and only that."""
import importlib.util
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / "lint" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def findings_of_include(tmp_path):
    layering = load("check_layering")

    def check(file, line):
        path = tmp_path / "src" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#pragma once\n{line}\n")
        return layering.check_tree(tmp_path / "src")
    return check


@pytest.mark.parametrize("file, line", [
    ("engine/scheduler.h", '#include "text/tokenizer.h"'),      # its own row
    ("engine/scheduler.h", '#include "kernels/table.h"'),       # through adapt, model, exec, ops
    ("engine/scheduler.h", "#include <unordered_map>"),
    ("base/log.cpp", "#include <fmt/core.h>"),
    ("server/metrics.cpp", "#include <prometheus/registry.h>"),
    ("net/http_server.cpp", "#  include <boost/asio.hpp>"),
    ("text/bpe_test.cpp", "#include <gtest/gtest.h>"),
    ("text/bpe_test.cpp", '#include "support/test_data.h"'),
])
def test_layering_allows(findings_of_include, file, line):
    assert findings_of_include(file, line) == []


@pytest.mark.parametrize("file, line", [
    ("base/log.cpp", '#include "net/http_server.h"'),           # upward
    ("net/http_server.h", '#include "model/block.h"'),          # the net knows no model
    ("server/routes.cpp", '#include "cli/serve.h"'),
    ("text/bpe.cpp", '#include "engine/engine.h"'),
    ("kernels/gemm.cpp", '#include "tensor/tensor.h"'),
    ("text/bpe.cpp", '#include "bpe.h"'),                       # not named from src/ on
    ("text/bpe.cpp", '#include "support/test_data.h"'),         # tests only
    ("text/bpe.cpp", "#include <gtest/gtest.h>"),
    ("server/routes.cpp", "#include <boost/asio.hpp>"),         # behind net's face
    ("model/load.cpp", "#include <sys/mman.h>"),
    ("model/load.cpp", "#include <torch/torch.h>"),             # unknown library
    ("gadgets/a.h", ""),                                        # unknown folder
])
def test_layering_refuses(findings_of_include, file, line):
    assert len(findings_of_include(file, line)) == 1


def test_layering_table_is_sound():
    layering = load("check_layering")
    order = list(layering.MAY_INCLUDE)
    assert all(below in order for row in layering.MAY_INCLUDE.values() for below in row)
    # No two folders may include each other.
    for folder in order:
        assert all(folder not in layering.reachable(below) for below in layering.reachable(folder) - {folder})


@pytest.mark.parametrize("name, content, count", [
    ("src/a.h", b"#pragma once\n", 0),
    ("src/a.h", b"int x;\n", 1),
    ("src/a.inl.h", b"int x;\n", 0),
    ("src/a.cpp", b"int x;", 1),
    ("src/a.cpp", b"int x; \n", 1),
    ("src/a.cpp", b"// TO" + b"DO: later\n", 1),
    ("src/a.cpp", b"\n" * 801, 1),
    ("docs/a.md", b"see /wo" + b"rk/main/src\n", 1),
    ("docs/a.md", b"https://example.org/wo" + b"rk/main\n", 0),
    ("docs/a.md", b"trailing blanks are markdown  \n", 0),
    ("tests/golden/a.json", b"/wo" + b"rk/x", 0),
    ("tests/golden/a.bin", b"\0" * 700_000, 1),
])
def test_rules(name, content, count):
    assert len(load("check_rules").check_file(name, content)) == count


def test_one_type_of_a_name():
    header = "namespace strata {{\n\n{}struct {} {{\n  int size;\n}};\n{}\n}}  // namespace strata\n"
    span, other = header.format("", "Span", ""), header.format("", "Other", "")
    local = header.format("namespace {\n", "Span", "}  // namespace\n")
    check = load("check_rules").check_types
    assert check([("a.h", span), ("b.h", other), ("c.cpp", local), ("d.h", span.replace("strata", "other"))]) == []
    assert check([("a.h", span), ("b.h", span)]) == ["b.h: Span is a type of a.h, too"]
    assert check([("a.h", span), ("b.h", "struct Span;\n")]) == []


def symbols_of(tmp_path, source):
    path = tmp_path / "isa_avx2.cpp"
    path.write_text(source)
    built = tmp_path / "isa_avx2.o"
    subprocess.run(["g++", "-std=c++20", "-O1", "-c", path, "-o", built], check=True)
    listed = subprocess.run(["nm", "--defined-only", "--demangle", built], capture_output=True, text=True, check=True)
    return load("check_isa_symbols").findings_of(listed.stdout, built.name)


@pytest.mark.parametrize("name, code, count", [
    ("isa_avx2_matmul.cpp.o", "  0:\tvpmaddubsw %ymm1,%ymm2,%ymm3\n", 0),
    ("isa_avx2_matmul.cpp.o", "  0:\tvaddps %ymm1,%ymm2,%ymm3\n", 1),                       # not what it is for
    ("isa_avx2_matmul.cpp.o", "  0:\tvpmaddubsw %ymm1,%ymm2,%ymm3\n  6:\tvaddps %ymm17,%ymm2,%ymm3\n", 1),
    ("isa_avx2_rows.cpp.o", "  0:\tvaddps %ymm1,%ymm2,%ymm3{%k1}\n", 1),
    ("isa_avx_vnni_matmul.cpp.o", "  0:\t{vex} vpdpbusd %ymm1,%ymm2,%ymm3\n", 0),
    ("isa_avx512_matmul.cpp.o", "  0:\tvpmaddubsw %zmm1,%zmm2,%zmm3\n  6:\tvpdpbusd %zmm1,%zmm2,%zmm3\n", 1),
    ("isa_avx512_vnni_matmul.cpp.o", "  0:\tvpdpbusd %zmm1,%zmm2,%zmm3\n", 0),
    ("isa_avx512_vnni_matmul.cpp.o", "  0:\tvpdpbusd %ymm1,%ymm2,%ymm3\n", 1),
    ("isa_scalar_rows.cpp.o", "  0:\taddps  %xmm1,%xmm2\n", 0),
    ("isa_scalar_rows.cpp.o", "  0:\tvaddps %xmm1,%xmm2,%xmm3\n", 1),
    ("isa_sse9_rows.cpp.o", "", 1),
])
def test_isa_instructions(name, code, count):
    assert len(load("check_isa_symbols").instruction_findings(code, name)) == count


def test_isa_symbols(tmp_path):
    hidden = "namespace { float twice(float x) { return 2 * x; } }\n"
    table = "extern float (*const avx2_kernel_table[1])(float);\nfloat (*const avx2_kernel_table[1])(float) = {twice};\n"
    assert symbols_of(tmp_path, hidden + table) == []
    assert len(symbols_of(tmp_path, hidden)) == 1                                           # no table
    assert len(symbols_of(tmp_path, hidden + table + "float leak(float x) { return twice(x); }\n")) == 1
    inline = "inline float __attribute__((noinline)) shared(float x) { return x; }\n"
    use = "namespace { float thrice(float x) { return shared(x) * 3; } }\n"
    table = table.replace("twice", "thrice")
    assert "weak" in symbols_of(tmp_path, inline + use + table)[0]
