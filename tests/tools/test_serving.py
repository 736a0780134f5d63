"""The end-to-end tests' server harness, over a stand-in for the program."""
import pytest

import serving

STAND_IN = """#!/bin/bash
[[ "$1 $2 $3 $4 $5" == "serve --host 127.0.0.1 --port 0" ]] || exit 9
{before}
trap 'exit {status}' TERM
echo "12:00 info: listening on http://127.0.0.1:43210" >&2
for _ in {{1..600}}; do sleep 0.1; {during}; done
"""


@pytest.fixture
def stand_in(tmp_path):
    def make(before=":", during=":", status=0):
        path = tmp_path / "strata"
        path.write_text(STAND_IN.format(before=before, during=during, status=status))
        path.chmod(0o755)
        return path
    return make


def test_a_server_is_started_found_and_ended(stand_in):
    with serving.serving(stand_in()) as server:
        assert server.url == "http://127.0.0.1:43210"
        assert server.memory_bytes() > 0
        assert "listening" in server.log()
    assert server.process.returncode == 0


def test_a_server_that_does_not_come_up_is_a_failure(stand_in):
    with pytest.raises(AssertionError, match="exit status 4.*\n?.*no memory"):
        serving.start_server(stand_in(before="echo no memory; exit 4"))


def test_a_server_that_ends_by_itself_is_a_failure(stand_in):
    with pytest.raises(AssertionError, match="by itself with status 3"):
        with serving.serving(stand_in(during="exit 3")) as server:
            server.process.wait()


def test_a_bad_exit_status_is_a_failure(stand_in):
    with pytest.raises(AssertionError, match="ended with status 1"):
        with serving.serving(stand_in(status=1)):
            pass
