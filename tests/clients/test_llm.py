"""The command `llm`: a model of extra-openai-models.yaml, and the plugin for llama.cpp's server."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from serving import serving
from shared import MODEL

LLM = pathlib.Path(sys.executable).with_name("llm")
# JSON is YAML too.
SETTINGS = {"model_id": "rec", "model_name": MODEL, "can_stream": True, "supports_schema": True, "supports_tools": True}
OPTIONS = ("-o", "temperature", "0", "-o", "max_tokens", "8")


@pytest.fixture(scope="module")
def llm(server, tmp_path_factory):
    """Runs `llm ARGUMENTS` with settings of its own; returns the ended process."""
    home = tmp_path_factory.mktemp("llm")
    models = [{**SETTINGS, "api_base": f"{server.url}/v1"}]
    (home / "extra-openai-models.yaml").write_text(json.dumps(models), encoding="utf-8")

    def run(*arguments):
        return subprocess.run([LLM, *arguments], env={**os.environ, "LLM_USER_PATH": str(home)}, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, capture_output=True)

    return run


def test_a_prompt_streamed_and_whole(llm):
    streamed = llm("-m", "rec", "Hello", "-u", *OPTIONS)
    assert streamed.returncode == 0 and streamed.stdout.strip(), streamed.stderr
    assert "Token usage:" in streamed.stderr and "8 output" in streamed.stderr
    whole = llm("-m", "rec", "Hello", "-u", "--no-stream", *OPTIONS)
    assert (whole.returncode, whole.stdout) == (0, streamed.stdout)
    # The second request finds the prompt's tokens cached, which llm adds to the same counts.
    assert whole.stderr.startswith(streamed.stderr.rstrip()) and '"cached_tokens": 30' in whole.stderr


def test_a_system_prompt_and_a_second_turn(llm):
    first = llm("-m", "rec", "Hello", "-s", "Be brief.", "-u", *OPTIONS)
    second = llm("-c", "And again", "-u", *OPTIONS)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr

    def prompt_tokens(done):
        return int(done.stderr.split("Token usage: ")[1].split(" input")[0].replace(",", ""))

    assert prompt_tokens(second) > prompt_tokens(first) + 8  # its own turn, the first and the answer


def test_a_stop_string(llm):
    """Sent as one string, not as an array."""
    whole = llm("-m", "rec", "Count: one, two, three", "-o", "temperature", "0", "-o", "max_tokens", "40").stdout
    cut = llm("-m", "rec", "Count: one, two, three", "-o", "temperature", "0", "-o", "max_tokens", "40", "-o", "stop", "e").stdout
    assert "e" in whole and cut.strip() == whole.split("e")[0].strip()


@pytest.mark.parametrize("arguments, field", [
    (("--schema", "name, age int"), "response_format"),
    (("--functions", "def upper(text: str) -> str:\n    'In capitals.'\n    return text.upper()\n"), "tools"),
], ids=["schema", "functions"])
def test_what_is_not_here_yet_is_named(llm, arguments, field):
    done = llm("-m", "rec", "Hello", *arguments)
    assert done.returncode != 0 and field in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_fault_is_shown_with_its_message(llm):
    done = llm("-m", "rec", "Hello", "-o", "max_tokens", "0")
    assert done.returncode != 0 and "max_tokens" in done.stderr, done.stderr


def test_the_plugin_for_llama_servers(strata, smollm2_file):
    """It asks for the model `llama-server` whatever is served, so that must be a name one can give."""
    import llm
    with serving(strata, "--model", f"llama-server={smollm2_file}") as server:
        model = llm.get_model("llama-server")
        assert model.api_base == "http://localhost:8080/v1"
        model.api_base, model.key = f"{server.url}/v1", "none"
        answer = model.prompt("Hello", temperature=0, max_tokens=8)
        assert answer.text().strip()
        assert answer.usage().output == 8
