"""The environments of other people's clients, one each, and the checks that run inside them."""
import hashlib
import shutil
import sys

from testing import BUILD_FOLDER, ROOT_FOLDER
from testing.report import run
from testing.suites import run_pytest

CHECKS_FOLDER = ROOT_FOLDER / "tests" / "clients"
# Environment (tests/clients/requirements-NAME.txt) and its checks.
CLIENTS = {
    "openai-3": "test_openai.py",
    "openai-2": "test_openai.py",
    "openai-1": "test_openai.py",
    "langchain": "test_langchain.py",
    "litellm": "test_litellm.py",
    "llama-index": "test_llama_index.py",
    "instructor": "test_instructor.py",
    "llm": "test_llm.py",
    "lm-eval": "test_lm_eval.py",
    "genai-bench": "test_genai_bench.py",
    "aiperf": "test_aiperf.py",
    "schemathesis": "test_schemathesis.py",
}


def environment(name):
    """The Python of the environment build/venvs/NAME; made anew when its requirements or this Python changed."""
    folder = BUILD_FOLDER / "venvs" / name
    requirements = [CHECKS_FOLDER / f"requirements-{name}.txt", CHECKS_FOLDER / "requirements-common.txt"]
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in requirements) + sys.version.encode()).hexdigest()
    stamp = folder / "requirements.sha256"
    python = folder / "bin" / "python"
    if not (stamp.exists() and stamp.read_text() == wanted):
        shutil.rmtree(folder, ignore_errors=True)
        run([sys.executable, "-m", "venv", folder], f"clients-{name}-venv")
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements[0]],
            f"clients-{name}-install", timeout_s=1800)
        stamp.write_text(wanted)
    return python


def check_client(report, name):
    run_pytest(report, f"tests/clients/{CLIENTS[name]}", f"clients-{name}", timeout_s=3600,
               arguments=("--timeout=1800",), python=environment(name))
