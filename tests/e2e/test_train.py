"""strata train: from a text to a model that the other commands take; interruptions; what is refused."""
import json
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
