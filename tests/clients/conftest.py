"""What the checks of all clients share. Each runs in its client's own environment (tools/testing/clients.py)."""
import pytest

import make_tokenizer_folder
from shared import RunningRequests


@pytest.fixture(scope="session")
def server(smollm2):
    return smollm2


@pytest.fixture(scope="session")
def tokenizer_folder(smollm2_file, tmp_path_factory):
    """A folder with the default model's tokenizer as Hugging Face's libraries read it."""
    folder = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer_folder.main(smollm2_file, folder)
    return folder


@pytest.fixture
def running_requests(server):
    return RunningRequests(server.url)
