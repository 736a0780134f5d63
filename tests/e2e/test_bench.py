"""`strata bench` on a small random model: the shape of its JSON, what belongs together, wrong usage. No speed is asserted."""
import json
import math
import subprocess

import pytest

from conftest import require_case
from gguf_model import write_llama

SUBJECTS = ["roofline", "gemm", "prefill", "decode", "batch", "attention", "load"]
PROBE = ("--probe-window", "0.001")     # limits are no matter here
LIMITS = {"read_gb_s", "fp32_gflop_s", "int8_gop_s"}


def run(strata, *arguments, **options):
    return subprocess.run([strata, "bench", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=240, **options)


def run_json(strata, *arguments, **options):
    """The report, its form checked: one object on stdout and nothing else there."""
    done = run(strata, *arguments, *PROBE, "--json", **options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1 and done.stderr == ""
    report = json.loads(done.stdout)
    assert list(report) == ["isa", "threads", "config_hash", "limits", "results"]
    assert len(report["config_hash"]) == 64 and set(report["limits"]) == LIMITS
    assert all(value > 0 for value in report["limits"].values())
    for result in report["results"]:
        assert list(result) == ["what", "model", "params", "value", "unit", "spread", "of_limit"]
        assert result["value"] > 0 and result["spread"] >= 0 and result["of_limit"] > 0
        assert all(math.isfinite(result[key]) for key in ("value", "spread", "of_limit"))
    return report


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "tiny.gguf"
    write_llama(path, vocabulary=400, hidden=128, layers=2, mlp=256, context=512)
    return path


def test_prefill(strata, model):
    [result] = run_json(strata, "prefill", model, "--prompt", 100, "--repeats", 3)["results"]
    assert result["what"] == "prefill" and result["model"] == "tiny" and result["unit"] == "tokens/s"
    assert result["params"] == {"prompt": 100, "kv_type": "f16"}


def test_decode(strata, model):
    report = run_json(strata, "decode", model, "--context", 20, "--tokens", 8, "--repeats", 2, "--kv-type", "f32", "--threads", 1)
    [result] = report["results"]
    assert report["threads"] == 1 and result["what"] == "decode"
    assert result["params"] == {"context": 20, "tokens": 8, "kv_type": "f32"}


def test_kv(strata, model, tmp_path):
    """Recomputed and cached give the same; bytes held beside the formula; pictures and tables."""
    done = run(strata, "kv", model, "--lengths", "16,64,200", "--tokens", 300, "--windows", "32,64", "--steps", 3, "--compare", 8, "--prompt", 20,
               "--repeats", 2, "--out", tmp_path / "kv", *PROBE, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert list(report) == ["isa", "threads", "config_hash", "limits", "results", "details"]
    count = {what: sum(r["what"] == what for r in report["results"]) for what in ("kv_naive", "kv_cached", "kv_policy")}
    assert count == {"kv_naive": 3, "kv_cached": 3, "kv_policy": 9} and all(r["unit"] == "s" and r["value"] > 0 for r in report["results"])
    details = report["details"]
    assert details["equality"]["equal_tokens"] == details["equality"]["equal_logits"] == details["equality"]["tokens"] == 8
    assert details["estimate"]["estimated"] is True and details["estimate"]["tokens"] == 200 and details["estimate"]["speed_up"] > 0
    full = [m for m in details["memory"] if m["policy"] == "full"]
    assert [m["length"] for m in full] == [100, 200, 300]
    assert all(m["formula_bytes"] <= m["held_bytes"] for m in details["memory"])
    window = [m["held_bytes"] for m in details["memory"] if m["policy"] == "window=32"]
    assert window[0] == window[2] < full[2]["held_bytes"], "constant"
    for picture in ("speed_comparison.png", "memory_growth.png", "sliding_window_comparison.png"):
        assert (tmp_path / "kv" / picture).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "kv" / "kv_benchmark.json").read_text() == done.stdout
    assert len((tmp_path / "kv" / "profiling_data.csv").read_text().splitlines()) == 1 + 3 + 3 + 9
    assert run(strata, "kv", model, "--lengths", "600", *PROBE).returncode == 2


def test_batch(strata, model):
    results = run_json(strata, "batch", model, "--streams", "1,5", "--context", 30, "--tokens", 6, "--repeats", 1)["results"]
    assert [r["params"] for r in results] == [{"streams": n, "context": 30, "tokens": 6, "kv_type": "f16"} for n in (1, 5)]
    assert {r["what"] for r in results} == {"batch_decode"} and all(r["spread"] == 0 for r in results)


def test_gemm(strata, model):
    results = run_json(strata, "gemm", model, "--rows", "2,64", "--repeats", 1)["results"]
    names = {"q", "k", "v", "o", "gate", "up", "down"}
    assert {r["params"]["name"] for r in results if r["params"]["tokens"] == 64} == names     # no prompt multiplies the head
    assert {r["params"]["name"] for r in results if r["params"]["tokens"] == 2} == names | {"head"}
    [result] = run_json(strata, "gemm", "--type", "q4_k", "--rows", 64, "--out", 64, "--in", 256, "--repeats", 1)["results"]
    assert result["params"] == {"type": "Q4_K", "tokens": 64, "out": 64, "in": 256} and result["model"] is None


def test_attention(strata):
    prompt, one = run_json(strata, "attention", "--heads", 4, "--kv-heads", 2, "--head-size", 32, "--context", 100, "--repeats", 1)["results"]
    assert prompt["what"] == one["what"] == "attention_forward"
    assert prompt["params"]["queries"] == 100 and one["params"]["queries"] == 1 and one["params"]["kv_type"] == "f32"


def test_attention_of_training_against_the_textbook(strata, tmp_path):
    results = run_json(strata, "attention", "--standard", "--lengths", "64,256", "--heads", 2, "--kv-heads", 1, "--head-size", 32,
                       "--repeats", 1, "--memory-limit", "1MiB", "--out", tmp_path / "charts")["results"]
    by = {(r["what"], r["params"]["method"], r["params"]["tokens"]): r for r in results}
    # At 256 tokens the weights alone are 2 x 256 x 256 x 4 bytes = 0.5 MiB, with their gradient and operands over 1 MiB.
    assert set(by) == {(f"attention_{way}", method, tokens) for way in ("forward", "backward")
                       for method, tokens in (("flash", 64), ("standard", 64), ("flash", 256))}
    assert by["attention_forward", "flash", 64]["params"]["max_difference"] < 1e-5
    assert by["attention_forward", "flash", 64]["params"]["seconds"] > 0
    # 4 T 96 + 3 T^2 floats: by the formula for quadratic equations.
    assert by["attention_forward", "standard", 64]["params"]["largest_tokens"] == 238
    assert by["attention_forward", "flash", 64]["params"]["largest_tokens"] > 0
    assert {p.name for p in (tmp_path / "charts").iterdir()} == {"memory_profile.png", "speedup_chart.png"}


def test_train_ops(strata, tmp_path):
    picture = tmp_path / "ops.png"
    results = run_json(strata, "train-ops", "--rows", 64, "--shapes", "48x32,32x48", "--tokens", 200, "--heads", 2, "--head-size", 32,
                       "--width", 64, "--vocabulary", 1000, "--repeats", 1, "--png", picture)["results"]
    assert [r["what"] for r in results] == [
        *["gemm_nt"] * 2, *["gemm_nn"] * 2, *["gemm_tn"] * 2, "train_attention_forward", "train_attention_backward", "rms_norm_forward",
        "rms_norm_backward", "layer_norm_forward", "layer_norm_backward", "cross_entropy", "cross_entropy_head", "adamw", "gradient_norm"]
    assert results[0]["params"] == {"rows": 64, "out": 48, "in": 32} and all(r["value"] > 0 and r["of_limit"] > 0 for r in results)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert run(strata, "train-ops", "--ops", "nothing").returncode == 2
    assert run(strata, "train-ops", "--ops", "nt", "--shapes", "48x", *PROBE).returncode == 2


def test_load(strata, model):
    results = run_json(strata, "load", model, "--repeats", 1)["results"]
    assert [r["what"] for r in results] == ["load", "cold_start"] and {r["unit"] for r in results} == {"s"}


def test_roofline(strata):
    results = run_json(strata, "roofline")["results"]
    assert [r["params"]["limit"] for r in results] == ["read", "fp32"] + [f"int8, {bits}-bit weights" for bits in (4, 5, 6, 8)]
    # A limit's median cannot be above its best.
    assert all(r["of_limit"] <= 1 + 1e-9 for r in results)


def test_config_hash(strata, model, tmp_path):
    """Equal for what belongs together, whatever was measured and with however many threads."""
    def hash_of(*arguments, **options):
        return run_json(strata, *arguments, "--repeats", 1, **options)["config_hash"]
    usual = hash_of("prefill", model, "--prompt", 8)
    assert hash_of("decode", model, "--tokens", 2, "--threads", 1) == usual
    assert hash_of("prefill", model, "--prompt", 8, "--kv-type", "f32") != usual
    other = tmp_path / "other.gguf"
    write_llama(other, vocabulary=401, hidden=128, context=64)
    assert hash_of("prefill", other, "--prompt", 8) != usual


def test_text_and_picture(strata, model, tmp_path):
    picture = tmp_path / "bench.png"
    done = run(strata, "prefill", model, "--prompt", 16, "--repeats", 1, *PROBE, "--png", picture)
    assert done.returncode == 0 and done.stderr == ""
    [title, row] = done.stdout.splitlines()[:2]
    assert title.split() == ["what", "model", "params", "median", "MAD", "unit", "of", "limit", "isa"]
    assert row.startswith("prefill  tiny") and row.split()[-1] in ("scalar", "avx2") or "avx" in row
    assert "config_hash" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert run(strata, "roofline", *PROBE, "--png", "/no-such-folder/a.png").returncode == 2


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["prefill", "m", "--prompt", "0"], ["decode", "m", "--streams", "2"],
                                       ["batch", "m", "--streams", "x"], ["decode", "m", "--kv-type", "q3"], ["gemm", "--type", "q4_k"],
                                       ["gemm", "--type", "no", "--out", "8", "--in", "8"], ["gemm", "--type", "q4_k", "--out", "8", "--in", "8"],
                                       ["attention", "--heads", "3", "--kv-heads", "2"],
                                       ["attention", "--lengths", "64"], ["attention", "--standard", "--heads", "3", "--kv-heads", "2"],
                                       ["attention", "--standard", "--context", "64"], ["prefill", "m", "--repeats", "0"]], ids=" ".join)
def test_wrong_usage(strata, arguments):
    done = run(strata, *arguments)
    assert done.returncode == 2 and done.stdout == "" and done.stderr


def test_what_cannot_be_measured(strata, model, tmp_path):
    """A context beyond the model's is wrong usage with both numbers, a file that is none is bad data."""
    done = run(strata, "prefill", model, "--prompt", 600, *PROBE)
    assert done.returncode == 2 and "512" in done.stderr and "601" in done.stderr and done.stdout == ""
    (tmp_path / "no.gguf").write_bytes(b"GGUF")
    for subject in ("prefill", "load"):
        assert run(strata, subject, tmp_path / "no.gguf", *PROBE).returncode == 3
        assert run(strata, subject, tmp_path / "none.gguf", *PROBE).returncode == 3


def test_chain(strata):
    """A model of another make: its vocabulary is small, its context short."""
    [result] = run_json(strata, "decode", require_case("common/chain.gguf"), "--tokens", 16, "--repeats", 1)["results"]
    assert result["model"] == "chain"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_help_has_an_example(strata, subject):
    done = run(strata, subject, "--help")
    assert done.returncode == 0 and f"Example: strata bench {subject}" in done.stdout and "--json" in done.stdout
