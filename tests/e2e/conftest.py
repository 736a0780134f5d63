"""Servers that the end-to-end tests share; a test that changes a server's state starts its own (serving.py)."""
import pytest

from conftest import require_case, require_model
from serving import serving


@pytest.fixture(scope="session")
def chain(strata):
    """A server of the hand-made model `chain`, whose greedy answers are known exactly (cases/common/CHAIN.md)."""
    with serving(strata, "--model", f"chain={require_case('common/chain.gguf')}") as server:
        yield server


@pytest.fixture(scope="session")
def smollm2(strata):
    """A server of the default model under the name `smollm2-135m`."""
    with serving(strata, "--model", f"smollm2-135m={require_model('smollm2-135m')}") as server:
        yield server
