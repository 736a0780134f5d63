"""The program on processors older than this machine's, emulated by qemu: code for a newer one must not leak."""
import json
import os
import shutil
import subprocess

import pytest

from conftest import missing, require_case

CHAIN_ANSWER = "alpha beta\N{GRINNING FACE} gamma delta epsilon"     # cases/common/CHAIN.md


def run_chat(strata, *prefix):
    if prefix and not shutil.which(prefix[0]):
        missing(f"{prefix[0]} (scripts/install-deps)")
    env = {name: value for name, value in os.environ.items() if name != "STRATA_ISA"}
    done = subprocess.run([*prefix, strata, "run", require_case("common/chain.gguf"), "--chat", "-p", "hi",
                           "--temperature", "0", "--json"], env=env, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["text"]


@pytest.mark.parametrize("processor", ["Nehalem", "SandyBridge", "Haswell"])
def test_older_processors(strata, processor):
    """Nehalem has no AVX, SandyBridge no AVX2 and no FMA, Haswell no AVX-512."""
    assert run_chat(strata, "qemu-x86_64", "-cpu", processor) == CHAIN_ANSWER


def test_this_processor(strata):
    assert run_chat(strata) == CHAIN_ANSWER
