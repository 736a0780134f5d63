"""Every broken model file ends a command with one line that says why, quickly and in little memory (cases C13, C15)."""
import dataclasses
import os
import pathlib
import resource
import shutil
import subprocess
import time

import pytest

from conftest import require_case

TIME_LIMIT_S = 5
MEMORY_LIMIT = 512 << 20
PEAK_LIMIT = 200 << 20

# The real reason of each file: words of its one line.
GGUF = {
    "a01-magic": "magic", "a02-version-swapped": "endian", "a03-version-999": "version", "a04-empty": "empty",
    "a05-magic-only": "short", "a06-kv-count-2p63": "", "a07-kv-count-2p32": "", "a08-tensor-count-2p63": "",
    "a09-tensor-count-max": "", "a10-key-length-2p63": "", "a11-string-length-max": "", "a12-array-bytes-wrap-to-0": "",
    "a13-array-depth-20000": "", "a14-array-type-77": "77", "a15-value-type-99": "99", "a16-duplicate-key": "",
    "a17-block-count-is-text": "block_count", "a18-cut-in-metadata": "", "a19-scores-shorter-than-tokens": "scores",
    "a20-block-count-2p31": "block_count", "a21-head-count-0": "head_count", "a22-eos-id-out-of-vocab": "eos_token_id",
    "a23-context-length-max": "context_length", "a24-epsilon-nan": "epsilon"}
MAY_LOAD = {"a22-eos-id-out-of-vocab", "a23-context-length-max"}
SAFETENSORS = {
    "s01-empty": "empty", "s02-seven-bytes": "short", "s03-header-length-0": "", "s04-header-length-2p63": "header",
    "s05-header-length-max": "header", "s06-header-length-past-end": "short", "s07-header-length-1p5e8": "header",
    "s08-not-json": "wanted '{'", "s09-json-array": "", "s10-json-cut": "", "s11-depth-100000": "", "s12-duplicate-name": "",
    "s13-name-not-utf8": "UTF-8", "s14-name-is-a-path": "", "s15-metadata-not-text": "wanted a string", "s16-text-after-json": "",
    "s17-pointer-file": "pointer", "s18-html-page": "web page", "s19-zip-start": "zip", "s20-nan-in-json": ""}

COMMANDS = {
    "run": lambda model: ["run", model, "-p", "a", "--max-tokens", "1", "--kv-memory", "16MiB", "--threads", "1"],
    "tokenize": lambda model: ["tokenize", model, "--text", "a"],
    "inspect": lambda model: ["inspect", model],
    "serve": lambda model: ["serve", "--port", "0", "--model", f"m={model}", "--kv-memory", "16MiB", "--threads", "1"],
}


@dataclasses.dataclass
class Ended:
    status: int
    stdout: str
    stderr: list
    seconds: float
    peak_bytes: int


def run_limited(strata, arguments, folder):
    """Runs the program in `folder` with limits of time and address space; what it left and how it ended."""
    out, err = folder / "stdout", folder / "stderr"
    begin = time.monotonic()
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        process = subprocess.Popen([strata, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=folder,
                                   preexec_fn=None if uses_sanitizers(strata) else limit_memory)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - begin > TIME_LIMIT_S:
                process.kill()
                os.wait4(process.pid, 0)
                process.returncode = -9
                pytest.fail(f"strata {arguments[0]} still ran after {TIME_LIMIT_S} s: {err.read_text(errors='replace')}")
            time.sleep(0.002)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(process.returncode, out.read_text(errors="replace"), err.read_text(errors="replace").splitlines(),
                 time.monotonic() - begin, usage.ru_maxrss * 1024)


def uses_sanitizers(strata):
    """AddressSanitizer maps terabytes of shadow memory."""
    return pathlib.Path(strata).parent.parent.name == "dev"


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))


def check_refused(ended, command, name, reason):
    assert 1 <= ended.status <= 125, ended
    assert ended.peak_bytes < PEAK_LIMIT
    lines = ended.stderr
    if command == "inspect" and ended.stdout:
        # It shows what can be read of a file that cannot be run, and why not.
        lines = [line for line in ended.stdout.splitlines() if line.startswith("strata cannot run it: ")]
        assert ended.stderr == []
    else:
        assert ended.stdout == ""
    assert len(lines) == 1 and name in lines[0] and len(lines[0]) < 1000, lines
    assert reason.lower() in lines[0].lower(), lines


@pytest.mark.parametrize("command", COMMANDS)
def test_broken_gguf(strata, tmp_path, command):
    files = sorted(require_case("C13").glob("a*.gguf"))
    assert {file.stem for file in files} == set(GGUF)
    for file in files:
        if file.stem in MAY_LOAD and command == "serve":
            continue   # it would run; test_files_that_may_load has it
        ended = run_limited(strata, COMMANDS[command](file), tmp_path)
        if file.stem in MAY_LOAD and ended.status == 0:
            continue
        check_refused(ended, command, file.name, GGUF[file.stem])
        assert ended.seconds < 1 or os.getloadavg()[0] > os.cpu_count()
    assert {path.name for path in tmp_path.iterdir()} == {"stdout", "stderr"}


def test_good_gguf(strata, tmp_path):
    for command in ("run", "tokenize", "inspect"):
        ended = run_limited(strata, COMMANDS[command](require_case("C13/good.gguf")), tmp_path)
        assert ended.status == 0, ended


def test_an_end_token_outside_the_vocabulary_is_a_warning(strata, tmp_path):
    ended = run_limited(strata, COMMANDS["run"](require_case("C13/a22-eos-id-out-of-vocab.gguf")), tmp_path)
    assert ended.status == 0 and any("eos_token_id" in line for line in ended.stderr), ended


@pytest.fixture
def model_folder(tmp_path):
    """A Hugging Face folder of C15's config with the chain model's tokenizer; the test puts the weights in."""
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(require_case("C15/config.json"), folder)
    for file in require_case("common/chain-hf").iterdir():
        if file.name.startswith(("tokenizer", "special", "chat_template")):
            shutil.copy(file, folder)
    return folder


@pytest.mark.parametrize("command", ["run", "inspect", "serve"])
def test_broken_safetensors(strata, tmp_path, model_folder, command):
    files = sorted(require_case("C15").glob("s*.safetensors"))
    assert {file.stem for file in files} == set(SAFETENSORS)
    for file in files:
        shutil.copy(file, model_folder / "model.safetensors")
        ended = run_limited(strata, COMMANDS[command](model_folder), tmp_path)
        check_refused(ended, command, "model.safetensors", SAFETENSORS[file.stem])
        assert ended.seconds < 1 or os.getloadavg()[0] > os.cpu_count()
    assert {path.name for path in tmp_path.iterdir()} == {"stdout", "stderr", "model"}
    # s14's tensor is called like a path outside the folder.
    assert not list(pathlib.Path(tmp_path).parent.glob("*escape*"))


def test_good_safetensors(strata, tmp_path, model_folder):
    shutil.copy(require_case("C15/good.safetensors"), model_folder / "model.safetensors")
    assert run_limited(strata, COMMANDS["inspect"](model_folder), tmp_path).status == 0
    # The chain model's tokenizer has more tokens than this model's embedding: not of one model, so not run.
    ended = run_limited(strata, COMMANDS["run"](model_folder), tmp_path)
    assert ended.status == 3 and "286 tokens" in ended.stderr[0] and "259" in ended.stderr[0]
