"""What every Python test shares: where the program, the data and the models are, and what their absence means."""
import json
import os
import pathlib

import pytest

from serving import serving

ROOT = pathlib.Path(__file__).resolve().parent.parent


def data_folder():
    """$STRATA_TEST_DATA, else ../shared/data beside the project."""
    return pathlib.Path(os.environ.get("STRATA_TEST_DATA") or ROOT.parent / "shared" / "data")


def cases_folder():
    return data_folder().parent / "cases"


def models_folder():
    home = os.environ.get("STRATA_HOME")
    return (pathlib.Path(home) if home else pathlib.Path.home() / ".cache" / "strata") / "models"


def missing(what):
    """Skips the test that lacks data or a program; with STRATA_REQUIRE_DATA=1 that is a failure."""
    if os.environ.get("STRATA_REQUIRE_DATA") == "1":
        pytest.fail(f"missing: {what}")
    pytest.skip(f"missing: {what}")


def require(path):
    """`path`, if it is there; see missing()."""
    if not path.exists():
        missing(path)
    return path


def require_data(name):
    """A file of the data folder: require_data("wikitext2-test.txt")."""
    return require(data_folder() / name)


def require_case(name):
    """A file of the cases: require_case("C01/requests.jsonl")."""
    return require(cases_folder() / name)


def require_model(name):
    """The file of a model of the catalogue: require_model("smollm2-135m")."""
    catalogue = json.loads((ROOT / "data" / "catalogue.json").read_text())["models"]
    return require(models_folder() / next(model["file"] for model in catalogue if model["name"] == name))


@pytest.fixture(scope="session")
def strata():
    """Path of the program under test: $STRATA_BIN, else the release build."""
    path = pathlib.Path(os.environ.get("STRATA_BIN") or ROOT / "build" / "release" / "bin" / "strata")
    if not path.exists():
        pytest.fail(f"{path} is not built (scripts/build)")
    return path


# Servers that tests share; a test that changes a server's state starts its own (support/serving.py).

@pytest.fixture(scope="session")
def chain(strata):
    """A server of the hand-made model `chain`, whose greedy answers are known exactly (cases/common/CHAIN.md)."""
    with serving(strata, "--model", f"chain={require_case('common/chain.gguf')}") as server:
        yield server


@pytest.fixture(scope="session")
def smollm2_file():
    return require_model("smollm2-135m")


@pytest.fixture(scope="session")
def smollm2(strata, smollm2_file):
    """A server of the default model under the name `smollm2-135m`."""
    with serving(strata, "--model", f"smollm2-135m={smollm2_file}") as server:
        yield server
