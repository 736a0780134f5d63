"""What every Python test shares: where the program, the data and the models are, and what their absence means."""
import json
import os
import pathlib

import pytest

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
    """Skips the test that lacks data; with STRATA_REQUIRE_DATA=1 that is a failure."""
    if os.environ.get("STRATA_REQUIRE_DATA") == "1":
        pytest.fail(f"missing data: {what}")
    pytest.skip(f"missing data: {what}")


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
