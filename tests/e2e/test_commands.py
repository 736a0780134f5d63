"""The commands beside serve: shapes of --json, exit statuses, --help, the terminal chat."""
import json
import os
import pty
import signal
import subprocess
import time

import pytest

from conftest import require_case, require_model

GREEDY = "alpha beta😀 gamma delta epsilon"
COMMANDS = ["serve", "chat", "run", "tokenize", "inspect", "models", "eval", "tokenizer", "train", "bench", "explain", "doctor"]


def run(strata, *arguments, **options):
    return subprocess.run([strata, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, **options)


def run_json(strata, *arguments):
    """What --json prints: one object on stdout and nothing else there."""
    done = run(strata, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


@pytest.fixture
def chain_file():
    return require_case("common/chain.gguf")


def test_run(strata, chain_file):
    result = run_json(strata, "run", chain_file, "--chat", "-p", "hi", "--temperature", 0)
    assert result["text"] == GREEDY and result["finish_reason"] == "stop"
    assert result["ids"] == [263, 264, 243, 162, 155, 131, 265, 266, 267, 268, 269, 2]
    assert result["usage"] == {"prompt_tokens": 6, "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens": 12, "total_tokens": 18}
    assert {"timings", "system_fingerprint"} <= set(result)
    plain = run(strata, "run", chain_file, "--chat", "-p", "hi", "--temperature", 0, "--quiet")
    assert (plain.stdout, plain.stderr) == (GREEDY + "\n", "")


def test_run_shows_when_each_token_came(strata, chain_file):
    arguments = ("run", chain_file, "--chat", "-p", "hi", "--temperature", 0, "--timestamps")
    result = run_json(strata, *arguments)
    assert len(result["token_seconds"]) == len(result["ids"]) == 12 and result["token_seconds"] == sorted(result["token_seconds"])
    lines = run(strata, *arguments, "--quiet").stdout.splitlines()
    times = [float(line.split(" s ")[0]) for line in lines]
    assert len(lines) == 12 and times == sorted(times) and "ms" not in lines[0] and all(" ms  " in line for line in lines[1:])
    assert "".join(json.loads(line[line.index('"'):]) for line in lines) == GREEDY


def test_run_reads_a_folder_and_stops(strata):
    result = run_json(strata, "run", require_case("common/chain-hf"), "--chat", "-p", "hi", "--temperature", 0, "--stop", "mma")
    assert result["text"] == "alpha beta😀 ga"


def test_run_refuses_what_does_not_fit(strata, chain_file):
    done = run(strata, "run", chain_file, "-p", "a" * 200)
    assert done.returncode in (1, 2, 3) and "128" in done.stderr and "201" in done.stderr and done.stdout == ""


def test_tokenize(strata, chain_file, tmp_path):
    result = run_json(strata, "tokenize", chain_file, "--text", "hi")
    assert result["ids"] == [1, 107, 108] and result["pieces"] == ["<s>", "<0x68>", "<0x69>"]
    assert run_json(strata, "tokenize", chain_file, "--decode", "263 264,267")["text"] == "alpha beta"[:10] + "lta"
    (tmp_path / "text").write_bytes(b"a\0b")
    assert len(run_json(strata, "tokenize", chain_file, "--file", tmp_path / "text")["ids"]) == 4
    assert run(strata, "tokenize", chain_file, "--decode", "999").returncode == 2
    assert run(strata, "tokenize", chain_file, "--file", "/nowhere").returncode == 3


def test_inspect(strata, chain_file):
    result = run_json(strata, "inspect", chain_file)
    assert result["runs"] is True and result["refused"] is None and result["architecture"] == "llama"
    assert result["files"] == [str(chain_file)] and {"name", "type", "shape", "bytes"} <= set(result["tensors"][0])
    assert result["plan"]["kv_bytes_per_token"] > 0
    f32, q8 = (run_json(strata, "inspect", chain_file, "--kv-type", t)["plan"]["kv_bytes_per_token"] for t in ("f32", "q8"))
    assert f32 == 2 * result["plan"]["kv_bytes_per_token"] and q8 < f32 / 3
    assert run(strata, "inspect", chain_file, "--kv-type", "q5").returncode == 2
    text = run(strata, "inspect", chain_file, "--tensors").stdout
    assert "token_embd.weight" in text and "KV cache" in text


def test_models(strata, tmp_path):
    result = run_json(strata, "models")
    assert "smollm2-135m" in {model["name"] for model in result["models"]}
    empty = subprocess.run([strata, "models", "--json"], capture_output=True, text=True, env={**os.environ, "STRATA_HOME": str(tmp_path)}, check=True)
    assert json.loads(empty.stdout)["folder"].startswith(str(tmp_path))


def test_doctor(strata):
    result = run_json(strata, "doctor")
    assert {"isa", "threads", "limits", "odd"} <= set(result) and result["limits"]["read_gb_s"] > 0


def test_eval_streaming(strata, tmp_path):
    """3,000 tokens through a model of 128 positions: as many pages at every end of a stretch; without sinks that is too long."""
    text = tmp_path / "text"
    text.write_text("ab " * 1000)
    command = ("eval", require_case("common/chain.gguf"), "streaming", "--file", text, "--segment", 1000)
    segments = run_json(strata, *command, "--kv-policy", "sinks=4,window=60")["segments"]
    assert [segment["tokens"] for segment in segments] == [1000, 1000, 1000]
    assert all(5 <= segment["kv_pages"] <= 10 and segment["perplexity"] > 1 for segment in segments), "sinks, window and a step"
    assert run(strata, *command).returncode == 2


def test_eval_perplexity(strata, tmp_path):
    text = tmp_path / "text"
    text.write_text("The quick brown fox jumps over the lazy dog. " * 40)
    result = run_json(strata, "eval", require_model("smollm2-135m"), "perplexity", "--file", text, "--context", 64, "--chunks", 2)
    assert {"perplexity", "nll", "stderr", "tokens"} <= set(result) and 1 < result["perplexity"] < 100
    short = run(strata, "eval", require_model("smollm2-135m"), "perplexity", "--file", text, "--context", 8192)
    assert short.returncode != 0 and short.stdout == "" and len(short.stderr.splitlines()) >= 1


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["run"], ["train"], ["run", "m", "--no-such"], ["tokenize", "m", "--text", "a", "--decode", "1"],
                                       ["run", "m", "-p", "a", "--temperature", "-1"], ["eval", "m"], ["inspect"]], ids=" ".join)
def test_wrong_usage(strata, arguments):
    done = run(strata, *arguments)
    assert done.returncode == 2 and done.stdout == "" and done.stderr


@pytest.mark.parametrize("arguments, told", [
    (["nothing"], ["strata: error: got 'nothing'", "serve", "strata --help"]),
    (["bench", "nothing"], ["bench: got 'nothing'", "roofline", "strata bench --help"]),
    (["bench"], ["bench: got no command", "roofline"]),
    (["run", "m", "-p", "a", "--no-such"], ["run: got the option '--no-such'", "strata run --help"]),
    (["run", "m", "-p", "a", "--top-k", "x"], ["run: --top-k", "x", "0 or more"]),
    (["bench", "gemm", "--type", "Q9", "--out", "32", "--in", "32"], ["--type", "Q9", "Q4_K"]),
    (["bench", "gemm", "--type", "Q4_K", "--out", "32", "--in", "40"], ["[32, 40]", "256"]),
], ids=lambda value: " ".join(value))
def test_wrong_usage_is_explained(strata, arguments, told):
    done = run(strata, *arguments)
    assert done.returncode == 2 and all(part in done.stderr for part in told), done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(strata, command):
    done = run(strata, command, "--help")
    assert done.returncode == 0 and done.stderr == "" and f"strata {command}" in done.stdout and "Example" in done.stdout
    assert run(strata, "--version").stdout.startswith("strata ")


class Terminal:
    """A command on a pseudo terminal."""

    def __init__(self, command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(command[0], command)
        self.seen = ""

    def read_until(self, mark, timeout_s=30):
        end = time.monotonic() + timeout_s
        os.set_blocking(self.fd, False)
        while mark not in self.seen:
            assert time.monotonic() < end, f"no {mark!r} in {self.seen!r}"
            try:
                self.seen += os.read(self.fd, 4096).decode("utf-8", "replace")
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:     # the other side has ended
                break
        before, found, self.seen = self.seen.partition(mark)
        assert found, before
        return before

    def write(self, text):
        os.write(self.fd, text.encode())

    def wait(self):
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_chat_in_a_terminal(strata, chain_file):
    terminal = Terminal([str(strata), "chat", str(chain_file), "--temperature", "0"])
    terminal.read_until("> ")
    terminal.write("hi\n")
    assert GREEDY in terminal.read_until("> ")
    terminal.write("/retry\n")
    assert GREEDY in terminal.read_until("> ")
    terminal.write("/reset\n")
    terminal.read_until("> ")
    terminal.write("a" * 120 + "\n")     # 120 + 4 leave room for 4 tokens
    assert "alpha" in terminal.read_until("> ")
    terminal.write("and more\n")         # does not fit any more: said, and the conversation goes on
    assert "context" in terminal.read_until("> ")
    terminal.write("\x04")
    assert terminal.wait() == 0


def test_interrupt_stops_an_answer_and_not_the_chat(strata):
    terminal = Terminal([str(strata), "chat", str(require_model("smollm2-135m")), "--temperature", "0", "--max-tokens", "4000"])
    terminal.read_until("> ")
    terminal.write("Count from one to a thousand.\n")
    terminal.read_until("thousand.\r\n")       # the echo of the terminal
    terminal.read_until(" ")                    # the answer has begun
    os.kill(terminal.pid, signal.SIGINT)
    assert len(terminal.read_until("> ", 20)) < 1000
    terminal.write("/quit\n")
    assert terminal.wait() == 0


def test_interrupt_between_answers_warns_before_it_leaves(strata, chain_file):
    terminal = Terminal([str(strata), "chat", str(chain_file), "--temperature", "0"])
    terminal.read_until("> ")
    terminal.write("typed \\\n")
    terminal.read_until(". ")
    os.kill(terminal.pid, signal.SIGINT)
    assert "Ctrl-C again or Ctrl-D to leave" in terminal.read_until("> ")
    terminal.write("hi\n")                      # the same answer as with nothing typed before
    assert GREEDY in terminal.read_until("> ")
    os.kill(terminal.pid, signal.SIGINT)
    terminal.read_until("> ")
    os.kill(terminal.pid, signal.SIGINT)
    assert terminal.wait() == 130


def test_terminate_ends_a_chat_that_waits(strata, chain_file):
    terminal = Terminal([str(strata), "chat", str(chain_file)])
    terminal.read_until("> ")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.wait() == 130


def test_interrupted_run_keeps_what_it_had(strata):
    process = subprocess.Popen([strata, "run", require_model("smollm2-135m"), "-p", "Once upon a time", "--max-tokens", "8000", "--seed", "1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 130 and len(first + rest) > 1
