"""schemathesis: what /openapi.json says is what the server does, for generated bodies good and bad.

Twice: with the document as it is served, and with one in which the names of models are the served one's, so that
requests come through to the model instead of ending at 404.
"""
import json
import pathlib
import subprocess
import sys

import pytest
import requests

from serving import serving
from shared import MODEL

SCHEMATHESIS = pathlib.Path(sys.executable).with_name("st")
SECONDS = 60  # for each of its budgeted phases; the fixed ones come before
# A request with a time-out of nothing at all is answered by 503, which is right.
SETTINGS = """\
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503]
"""


@pytest.fixture(scope="module")
def small(strata, smollm2_file):
    """Short answers: a context of 64 also bounds what 64 choices of one request take."""
    with serving(strata, "--model", f"{MODEL}={smollm2_file}", "--context", 64, "--threads", 1) as server:
        yield server


def check(folder, location, *arguments):
    (folder / "schemathesis.toml").write_text(SETTINGS, encoding="utf-8")
    done = subprocess.run([SCHEMATHESIS, "--config-file", folder / "schemathesis.toml", "run", location, "--seed", "1",
                           "--max-time", str(SECONDS), "--request-timeout", "300", "--no-color", *arguments],
                          cwd=folder, text=True, timeout=1500, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout)
    assert done.returncode == 0


def test_the_document_as_it_is(small, tmp_path):
    check(tmp_path, f"{small.url}/openapi.json")


def test_requests_that_reach_the_model(small, tmp_path):
    """Without the check that all that fits the document is accepted: no schema holds the rules between fields
    (stream_options needs stream), nor the model's (how many tokens fit, which roles its template knows)."""
    document = requests.get(f"{small.url}/openapi.json", timeout=60).json()
    for schema in document["components"]["schemas"].values():
        if name := schema.get("properties", {}).get("model"):
            name["enum"] = [MODEL, None] if "null" in name["type"] else [MODEL]
    document["components"]["schemas"]["Message"]["properties"]["role"]["enum"] = ["system", "developer", "user", "assistant"]
    path = document["paths"]["/v1/models/{id}"]["get"]
    path["parameters"][0]["schema"]["enum"] = [MODEL]
    (tmp_path / "openapi.json").write_text(json.dumps(document), encoding="utf-8")
    check(tmp_path, tmp_path / "openapi.json", "--url", small.url, "--exclude-checks", "positive_data_acceptance")
