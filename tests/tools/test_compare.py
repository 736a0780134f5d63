"""bench/compare and what its scripts share, against a stand-in for the strata program: no speed is measured."""
import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"


def load(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module     # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


figures, works = load("figures"), load("works")

REPORT = {"isa": "avx2", "threads": 2, "config_hash": "ab", "limits": {"read_gb_s": 30, "fp32_gflop_s": 200, "int8_gop_s": 500},
          "results": [{"what": "decode", "model": "m", "params": {}, "value": 40, "unit": "tokens/s", "spread": 1, "of_limit": 0.5}]}

CATALOGUE = {"folder": "/models", "models": [{"name": "tiny-1.5b", "file": "tiny.gguf", "here": True}, {"name": "big", "file": "big.gguf", "here": False}]}


@pytest.fixture
def stand_in(tmp_path):
    """A program that writes a report whose value is 40, then 50, then 60, and notes its arguments."""
    path = tmp_path / "strata"
    path.write_text(f"""#!{sys.executable}
import json, pathlib, sys
calls = pathlib.Path({str(tmp_path)!r}) / "calls"
before = calls.read_text().splitlines() if calls.exists() else []
calls.write_text("\\n".join([*before, " ".join(sys.argv[1:])]) + "\\n")
if sys.argv[1] == "models":
    print(json.dumps({CATALOGUE!r}))
    sys.exit()
report = {REPORT!r}
report["results"][0]["value"] += 10 * len(before)
print(json.dumps(report))
""")
    path.chmod(0o755)
    return path


def compare(*arguments):
    return subprocess.run([sys.executable, BENCH / "compare", *map(str, arguments)], capture_output=True, text=True, timeout=60)


def test_median_range_and_ratio():
    assert figures.shown([3, 1, 200]) == "3.000 [1.000, 200.0]"
    assert figures.ratio([10, 20, 30], [5]) == 4 and figures.ratio([2], [5], lower_is_better=True) == 2.5
    assert [figures.figure(x) for x in (1234.5, 99.96, 0.5)] == ["1234", "99.96", "0.500"]


def test_first_byte():
    assert figures.seconds_to_first_byte(["/bin/sh", "-c", "sleep 0.1; echo a"]) >= 0.1
    with pytest.raises(SystemExit):
        figures.seconds_to_first_byte(["/bin/sh", "-c", "echo a; exit 3"])
    with pytest.raises(SystemExit):
        figures.seconds_to_first_byte(["/bin/sh", "-c", "exit 0"])


def test_a_work_takes_its_own_result():
    results = [{"what": "attention_forward", "params": {"queries": n}, "value": n} for n in (4096, 1)]
    work = works.Work("attention", "", "GFLOP/s", {}, [], "attention_forward", {"queries": 1})
    assert work.take({"results": results})["value"] == 1


def test_table_and_file(stand_in, tmp_path):
    done = compare("--strata", stand_in, "--works", "decode", "--tokens", 7, "--repeats", 3, "--threads", 2, "--peers", "llama.cpp",
                   "--llama", tmp_path, "--json", tmp_path / "out.json", tmp_path / "m.gguf")
    assert done.returncode == 0, done.stderr
    assert "llama.cpp is left out" in done.stdout and "To install it" in done.stdout
    assert "| m | decode 7 after 0, tokens/s | 50.00 [40.00, 60.00] | 50 % | - | - | - |" in done.stdout
    assert "read 30.0 GB/s" in done.stdout
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [f"bench decode {tmp_path / 'm.gguf'} --tokens 7 --context 1 --repeats 1 --threads 2 --json --quiet"] * 3
    [work] = json.loads((tmp_path / "out.json").read_text())["works"]
    assert work["strata"] == [40, 50, 60] and work["limits"]["read_gb_s"] == 30


def test_catalogue_names(stand_in, tmp_path):
    run = ["--strata", stand_in, "--works", "decode", "--repeats", 1, "--peers", "openblas"]
    assert "| tiny | decode" in compare(*run, "tiny-1.5b").stdout
    assert "bench decode /models/tiny.gguf " in (tmp_path / "calls").read_text()
    for name, said in (("big", "scripts/get-model big"), ("huge", "nor one of tiny-1.5b, big")):
        done = compare(*run, name)
        assert done.returncode == 1 and said in done.stderr


def test_works_of_training():
    options = argparse.Namespace(heads=8, head_size=64, attention_context=4096, shapes=["4096x1536x384"], products=["nt", "tn"])
    assert [w.kind for w in works.WITHOUT_MODEL["attention"](options, None)] == ["attention-forward", "attention-backward"]
    forward, tn = works.WITHOUT_MODEL["matmul"](options, None)
    assert forward.sizes == {"rows": 4096, "out": 1536, "in": 384, "product": "nt"}
    assert tn.what == "gemm_tn" and tn.strata[:4] == ["train-ops", "--ops", "tn", "--rows"]


def test_llama_bench_is_read(stand_in, tmp_path):
    for name in ("llama-bench", "llama-batched-bench", "llama-completion"):
        tool = tmp_path / name
        tool.write_text("#!/bin/sh\necho '[{\"avg_ts\": 25}]'\n")
        tool.chmod(0o755)
    done = compare("--strata", stand_in, "--works", "decode", "--repeats", 1, "--peers", "llama.cpp", "--llama", tmp_path, "m.gguf")
    assert done.returncode == 0, done.stderr
    assert "| llama.cpp | 25.00 [25.00, 25.00] | 1.60 |" in done.stdout


@pytest.mark.parametrize("arguments", [["--works", "nothing", "m"], ["--peers", "nobody", "m"], ["--works", "prefill"], ["--repeats", "0", "m"]], ids=" ".join)
def test_wrong_usage(arguments):
    done = compare(*arguments)
    assert done.returncode == 2 and done.stderr


@pytest.mark.parametrize("script", ["compare", "memory.py", "streams.py", "train_memory.py", "tokenizer_speed.py", "tokenizer_training.py"])
def test_help(script):
    done = subprocess.run([sys.executable, BENCH / script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and f"bench/{script}" in done.stdout
