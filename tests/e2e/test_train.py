"""strata train: from a text to a model that the other commands take; interruptions; what is refused."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

TEXT = "".join(f"the {a} sat on the {b}. " for a in ("cat", "dog", "cow", "fox") for b in ("mat", "log", "hill", "rock")) * 12
SMALL = ["--layers", 1, "--heads", 2, "--hidden", 32, "--context", 16, "--batch", 4, "--steps", 60, "--warmup", 5, "--lr", 0.01,
         "--eval-every", 20]


def small(*more):
    """The arguments of a small run, those of `more` in place of its own."""
    kept = [a for key, value in zip(SMALL[::2], SMALL[1::2]) if key not in more for a in (key, value)]
    return [*kept, *more]


def run(strata, *arguments, **options):
    return subprocess.run([strata, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, **options)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text(TEXT)
    return path


def train(strata, data, out, *more):
    done = run(strata, "train", "--data", data, "--out", out, *small(*more), "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def weights(folder):
    return (pathlib.Path(folder) / "model.safetensors").read_bytes()


def test_the_result_is_a_model(strata, data, tmp_path):
    result = train(strata, data, tmp_path / "gpt")
    assert result["end"] == "done" and result["step"] == 60 and result["tokens"] == 60 * 4 * 16
    assert 0 < result["validation_loss"] < 2 and abs(result["validation_loss_random_windows"] - result["validation_loss"]) < 0.3
    lines = [json.loads(line) for line in (tmp_path / "gpt/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "validation_loss" in line] == [20, 40, 60]
    assert (tmp_path / "gpt/loss_curve.png").read_bytes().startswith(b"\x89PNG")
    written = run(strata, "run", tmp_path / "gpt", "-p", "the ", "--max-tokens", 8, "--json")
    assert written.returncode == 0 and json.loads(written.stdout)["usage"]["completion_tokens"] == 8, written.stderr
    scored = run(strata, "eval", tmp_path / "gpt", "perplexity", "--file", data, "--context", 16, "--json")
    assert scored.returncode == 0 and json.loads(scored.stdout)["perplexity"] < 10, scored.stderr


@pytest.mark.parametrize("keys", [["--positions", "rotary", "--norm", "rms", "--gated", "true", "--activation", "silu", "--bias", "false"],
                                  ["--positions", "rotary", "--kv-heads", 1], ["--positions", "sinusoidal", "--tied", "false"]])
def test_every_layout_is_served(strata, data, tmp_path, keys):
    train(strata, data, tmp_path / "gpt", *keys)
    done = run(strata, "run", tmp_path / "gpt", "-p", "the c", "--max-tokens", 4, "--temperature", 0, "--json")
    assert done.returncode == 0, done.stderr


def test_a_killed_run_and_an_interrupted_one_go_on_bit_for_bit(strata, data, tmp_path):
    steps = ["--steps", 150, "--save-every", 1, "--dropout", 0.1]
    train(strata, data, tmp_path / "whole", *steps)
    command = [str(a) for a in [strata, "train", "--data", data, "--out", tmp_path / "parts", *small(*steps), "--quiet"]]
    for number, how in enumerate([signal.SIGKILL, signal.SIGINT]):
        process = subprocess.Popen(command + (["--resume"] if number else []), stdout=subprocess.DEVNULL)
        seen = set()
        deadline = time.time() + 60
        while len(seen) < 8 and time.time() < deadline:
            seen |= {p.name for p in (tmp_path / "parts/trainer").glob("step-*")}
            time.sleep(0.001)
        process.send_signal(how)
        assert process.wait(60) == (-9 if how == signal.SIGKILL else 130)
    result = train(strata, data, tmp_path / "parts", *steps, "--resume")
    assert result["step"] == 150 and weights(tmp_path / "parts") == weights(tmp_path / "whole")


def test_a_file_of_keys(strata, data, tmp_path):
    (tmp_path / "config.toml").write_text('hidden = 32\nheads = 2\nlayers = 1\ncontext = 16\ngated = true\nlr = 0.002\nsteps = 3\nwarmup = 1\n')
    done = run(strata, "train", "--data", data, "--out", tmp_path / "gpt", "--config", tmp_path / "config.toml", "--steps", 4, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["step"] == 4, done.stderr
    state = json.loads((tmp_path / "gpt/trainer/step-00000004/state.json").read_text())
    assert state["config"]["gated"] == "true" and state["config"]["lr"] == "0.002"
    (tmp_path / "config.toml").write_text("hiden = 32\n")
    done = run(strata, "train", "--data", data, "--out", tmp_path / "x", "--config", tmp_path / "config.toml")
    assert done.returncode == 2 and "unknown key 'hiden'" in done.stderr


def test_a_dry_run_writes_nothing(strata, data, tmp_path):
    done = run(strata, "train", "--data", data, *SMALL, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    # By hand: rows of 32 for each character, [UNK] and 16 positions; a block's matrices 12 x 32 x 32, its biases and
    # norms 13 x 32; the last norm 2 x 32.
    assert result["parameters"] == (len(set(TEXT)) + 1 + 16) * 32 + 12 * 32 * 32 + 13 * 32 + 2 * 32
    assert result["memory"]["total"] > 4 * 4 * result["parameters"] and result["seconds_per_step"] > 0
    assert list(tmp_path.iterdir()) == [data]


@pytest.mark.parametrize("arguments, status, message", [
    (["--momentum", "0.5"], 2, "momentum has no effect with optimizer adamw"),
    (["--optimizer", "adam"], 2, "wanted one of adamw, sgd, lion, muon"),
    (["--steps", "1.5"], 2, "steps is '1.5', wanted an integer"),
    (["--heads", "3"], 2, "hidden = 32 is no multiple of heads = 3"),
    (["--context", "100000"], 3, "wanted at least 100001"),
    (["--resume"], 2, "no checkpoint to resume from"),
    (["--lr", "1e30", "--warmup", "0", "--clip", "0", "--min-lr", "0"], 1, "is not finite")])
def test_what_is_refused(strata, data, tmp_path, arguments, status, message):
    done = run(strata, "train", "--data", data, "--out", tmp_path / "gpt", *small(*arguments))
    assert (done.returncode, message in done.stderr) == (status, True), done.stderr


def test_bad_data(strata, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    done = run(strata, "train", "--data", tmp_path / "empty.txt", "--out", tmp_path / "gpt")
    assert done.returncode == 3 and "there is no text in it" in done.stderr
    (tmp_path / "bytes.txt").write_bytes(b"abc\xff")
    assert run(strata, "train", "--data", tmp_path / "bytes.txt", "--out", tmp_path / "gpt").returncode == 3
    assert run(strata, "train", "--data", tmp_path / "none.txt", "--out", tmp_path / "gpt").returncode == 3


def test_a_run_is_resumed_as_it_began(strata, data, tmp_path):
    train(strata, data, tmp_path / "gpt")
    again = run(strata, "train", "--data", data, "--out", tmp_path / "gpt", *SMALL)
    assert again.returncode == 2 and "has a run already" in again.stderr
    other = run(strata, "train", "--data", data, "--out", tmp_path / "gpt", "--resume", "--lr", 0.5)
    assert other.returncode == 2 and "a run is resumed as it began" in other.stderr


def test_averaged_weights_early_stopping_and_the_record(strata, data, tmp_path):
    plain = train(strata, data, tmp_path / "plain")
    averaged = train(strata, data, tmp_path / "averaged", "--ema", 0.9, "--norms-every", 30)
    assert weights(tmp_path / "plain") != weights(tmp_path / "averaged") and averaged["validation_loss"] != plain["validation_loss"]
    # What is saved loads as any model does, and scores what the run said.
    done = run(strata, "run", tmp_path / "averaged", "-p", "the c", "--max-tokens", 4, "--json")
    assert done.returncode == 0, done.stderr
    norms = [json.loads(line) for line in (tmp_path / "averaged/norms.jsonl").read_text().splitlines()]
    assert [line["step"] for line in norms] == [30, 60]
    assert all(n["weight"] > 0 and n["gradient"] > 0 for name, n in norms[1]["tensors"].items() if not name.endswith("k.bias"))
    assert (tmp_path / "plain/attention_viz.png").read_bytes().startswith(b"\x89PNG")

    stopped = train(strata, data, tmp_path / "stopped", "--lr", 0.5, "--min-lr", 0.5, "--eval-every", 2, "--early-stop", 2)
    assert stopped["end"] == "no_improvement" and stopped["step"] == stopped["best"]["step"] + 4 < 60
    lines = [json.loads(line) for line in (tmp_path / "stopped/metrics.jsonl").read_text().splitlines()]
    assert stopped["best"]["validation_loss"] == min(line["validation_loss"] for line in lines if "validation_loss" in line)
    best = tmp_path / f"stopped/trainer/step-{stopped['best']['step']:08}"
    assert weights(best) == weights(tmp_path / "stopped")
    other = run(strata, "train", "--data", data, "--out", tmp_path / "stopped", "--resume", "--eval-every", 3)
    assert other.returncode == 2 and "a run is resumed as it began" in other.stderr


def test_bf16_rounds_weights_and_says_where_it_is_no_faster(strata, data, tmp_path):
    arguments = ["train", "--data", data, *small("--steps", 2, "--warmup", 0)]
    done = run(strata, *arguments, "--out", tmp_path / "gpt", "--dtype", "bf16")
    assert done.returncode == 0
    has_products = json.loads(run(strata, "doctor", "--json").stdout)["isa"] == "avx512_bf16"
    assert ("dtype bf16: weight matrices are rounded" in done.stderr and "no faster" in done.stderr) != has_products
    assert json.loads((tmp_path / "gpt/trainer/step-00000002/state.json").read_text())["config"]["dtype"] == "bf16"
    # A run goes on with its dtype, named or not, and with no other.
    assert run(strata, "train", "--data", data, "--out", tmp_path / "gpt", "--resume").returncode == 0
    other = run(strata, "train", "--data", data, "--out", tmp_path / "gpt", "--resume", "--dtype", "f32")
    assert other.returncode == 2 and "dtype is f32, the run in" in other.stderr
    plain = run(strata, *arguments, "--out", tmp_path / "plain")
    assert plain.returncode == 0 and "bf16" not in plain.stderr
    assert weights(tmp_path / "plain") != weights(tmp_path / "gpt")
    # The copies are counted: at most 2 bytes a parameter and what rounds each up to a line.
    cost = json.loads(run(strata, *arguments, "--dry-run", "--json", "--dtype", "bf16").stdout)
    assert cost["parameters"] <= cost["memory"]["bf16_copies"] <= 2 * cost["parameters"] + 4096


def test_tokens_are_made_once_and_of_this_text(strata, data, tmp_path):
    train(strata, data, tmp_path / "gpt", "--steps", 20)
    tokens = tmp_path / "gpt/tokens.bin"
    assert tokens.stat().st_size == 2 * len(TEXT) + 128
    made = tokens.stat().st_mtime_ns
    # A run that is killed before its end goes on from the same file, and with no other text.
    done = subprocess.run([str(a) for a in [strata, "train", "--data", data, "--out", tmp_path / "short", *small("--steps", 40), "--max-minutes", 1e-9]])
    assert done.returncode == 0
    (tmp_path / "other.txt").write_text(TEXT.replace("cat", "tac"))
    other = run(strata, "train", "--data", tmp_path / "other.txt", "--out", tmp_path / "short", "--resume")
    assert other.returncode == 2 and "is not the text that the run in" in other.stderr
    (tmp_path / "short/tokens.bin").write_bytes(b"no")
    broken = run(strata, "train", "--data", data, "--out", tmp_path / "short", "--resume")
    assert broken.returncode == 3 and "is no token file; remove it and it is made again" in broken.stderr
    (tmp_path / "short/tokens.bin").unlink()
    assert run(strata, "train", "--data", data, "--out", tmp_path / "short", "--resume").returncode == 0
    # A folder is its files in order of their names.
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/2.txt").write_text(TEXT[100:])
    (tmp_path / "texts/1.txt").write_text(TEXT[:100])
    train(strata, tmp_path / "texts", tmp_path / "folder", "--steps", 20)
    assert weights(tmp_path / "folder") == weights(tmp_path / "gpt") and tokens.stat().st_mtime_ns == made


def peak_kilobytes(*command):
    process = subprocess.Popen([str(a) for a in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss


def test_memory_does_not_grow_with_the_text(strata, data, tmp_path):
    """As text and ids of 4 bytes, 60 MB would be 300 MB. The file of tokens is mapped, and little of it is touched."""
    large = tmp_path / "large.txt"
    large.write_text(TEXT * (60_000_000 // len(TEXT)))
    options = [*small("--steps", 2, "--warmup", 0), "--validation-share", 1e-5, "--quiet"]
    peaks = [peak_kilobytes(strata, "train", "--data", text, "--out", tmp_path / f"gpt{i}", *options)
             for i, text in enumerate([tmp_path / "medium.txt", large]) if text.exists() or text.write_text(TEXT * (10_000_000 // len(TEXT)))]
    assert peaks[1] < peaks[0] + 20_000, peaks
