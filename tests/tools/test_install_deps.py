"""scripts/install-deps with stand-ins for dpkg-query and apt-get."""
import os
import pathlib
import subprocess

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "install-deps"

# As dpkg-query: one package is installed, one removed, of the others it knows nothing and fails.
DPKG_QUERY = """#!/bin/sh
echo 'g++ installed'
echo 'cmake config-files'
echo 'dpkg-query: no packages found matching libfmt-dev' >&2
exit 1
"""
APT_GET = """#!/bin/sh
echo "$@" >>"$APT_LOG"
"""
SUDO = """#!/bin/sh
exec "$@"
"""


def test_installs_what_dpkg_does_not_know(tmp_path):
    for name, text in {"dpkg-query": DPKG_QUERY, "apt-get": APT_GET, "sudo": SUDO}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "apt.log"
    environment = dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}", APT_LOG=str(log))
    run = subprocess.run([SCRIPT, "--build"], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    installed = log.read_text().splitlines()[-1].split()
    assert "install" in installed
    assert "libfmt-dev" in installed and "cmake" in installed
    assert "g++" not in installed
