"""scripts/test counts what its tools say, and a failure anywhere is a failure of the whole."""
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from testing import fuzzing, report, state, suites, tidy  # noqa: E402 (the path is set above)


# As gtest 1.12 writes it.
GTEST_XML = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" disabled="1" errors="0" name="AllTests">
  <testsuite name="Suite" tests="4" failures="1" disabled="1" skipped="1" errors="0">
    <testcase name="passes" status="run" result="completed" classname="Suite" />
    <testcase name="fails" status="run" result="completed" classname="Suite">
      <failure message="foo_test.cpp:1&#x0A;1 != 2" type=""><![CDATA[foo_test.cpp:1
1 != 2]]></failure>
    </testcase>
    <testcase name="lacks_data" status="run" result="skipped" classname="Suite">
      <skipped message="foo_test.cpp:3&#x0A;missing data: x&#x0A;"><![CDATA[foo_test.cpp:3
missing data: x
]]></skipped>
    </testcase>
    <testcase name="disabled" status="notrun" result="suppressed" classname="Suite" />
  </testsuite>
</testsuites>
"""


def test_gtest_cases_are_counted():
    run = report.Report()
    with run.phase("p"):
        assert suites.count_gtest_cases(run, xml.etree.ElementTree.fromstring(GTEST_XML.encode()), "prog") == 1
    assert [run.total(field) for field in ("passed", "failed", "skipped")] == [1, 1, 1]
    assert run.skips == [("p", "prog: Suite.lacks_data: missing data: x")]


@pytest.mark.parametrize("passed, failed, code", [(1, 0, 0), (1, 1, 1), (0, 1, 1), (0, 0, 1)])
def test_verdict(capsys, passed, failed, code):
    run = report.Report()
    with run.phase("p"):
        run.ok(passed)
        for number in range(failed):
            run.fail(f"test {number}")
    assert run.print_summary() == code
    assert capsys.readouterr().out.splitlines()[-1] == f"{passed} passed, {failed} failed, 0 skipped"


def test_a_phase_that_cannot_run_fails():
    run = report.Report()
    with run.phase("p"):
        report.run(["false"], "test-of-run")
    with run.phase("q"):
        report.run(["no-such-program-anywhere"], "test-of-run")
    assert run.total("failed") == 2 and run.print_summary() == 1


def test_headers_are_checked_through_their_source():
    compiled = ["src/a/x.cpp", "src/a/x_test.cpp", "src/a/y_test.cpp", "src/a/z.cpp"]
    changed = ["src/a/x.h", "src/a/y.h", "src/a/lonely.h", "src/a/z.cpp", "src/a/gone.cpp", "README.md"]
    assert tidy.sources_of(changed, compiled) == ["src/a/x.cpp", "src/a/y_test.cpp", "src/a/z.cpp"]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A git repository with one commit, as the project's root; returns a function that commits a file."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.setattr(state, "ROOT_FOLDER", root)
    monkeypatch.setenv("STRATA_HOME", str(tmp_path / "home"))
    env = {**os.environ, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_COMMITTER_NAME": "t",
           "GIT_COMMITTER_EMAIL": "t@example.org"}

    def commit(name, content):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content)
        subprocess.run(["git", "add", "-A"], cwd=root, check=True)
        subprocess.run(["git", "commit", "-q", "-m", name], cwd=root, env=env, check=True)
    commit.root = root
    subprocess.run(["git", "init", "-q", "-b", "main", root], check=True)
    commit("src/a.cpp", "1\n")
    return commit


def test_tiers_are_due_when_their_sources_change(repository):
    assert state.passed_unchanged("isa", ("src",)) is None
    state.remember("isa", 1)
    assert state.passed_unchanged("isa", ("src",)) is not None
    repository("docs/a.md", "text\n")
    assert state.passed_unchanged("isa", ("src",)) is not None
    repository("src/a.cpp", "2\n")
    assert state.passed_unchanged("isa", ("src",)) is None


def test_uncommitted_changes_count_and_are_not_remembered(repository):
    state.remember("isa", 1)
    (repository.root / "src" / "new.cpp").write_text("3\n")
    assert state.passed_unchanged("isa", ("src",)) is None
    state.remember("tsan", 1)
    assert state.passed_unchanged("tsan", ()) is None


def test_the_base_of_main_is_the_commit_before(repository):
    first = state.git("rev-parse", "HEAD")
    repository("src/b.cpp", "1\n")
    assert state.comparison_base() == first
    subprocess.run(["git", "checkout", "-q", "-b", "work"], cwd=repository.root, check=True)
    main = state.git("rev-parse", "HEAD")
    repository("src/c.cpp", "1\n")
    repository("src/d.cpp", "1\n")
    assert state.comparison_base() == main
    assert state.changed_files(main) == ["src/c.cpp", "src/d.cpp"]


TARGET = """#!/bin/bash
echo "#2 INITED cov: 12 ft: 13 corp: 1/1b"
echo "#99 NEW cov: 34 ft: 40 corp: 2/2b"
echo "Done 99 runs in 3 second(s)"
echo "stat::number_of_executed_units: 99"
for argument in "$@"; do
  case $argument in -artifact_prefix=*) [[ -n "$FIND" ]] && echo x >"${argument#*=}crash-1" ;; esac
done
exit ${FIND:+77}
"""


@pytest.mark.parametrize("finds", [False, True])
def test_fuzz_report(tmp_path, monkeypatch, finds):
    monkeypatch.setattr(fuzzing, "BUILD_FOLDER", tmp_path)
    (tmp_path / "fuzz" / "bin").mkdir(parents=True)
    target = tmp_path / "fuzz" / "bin" / "json_fuzz"
    target.write_text(TARGET)
    target.chmod(0o755)
    if finds:
        monkeypatch.setenv("FIND", "1")
    run = report.Report()
    with run.phase("fuzz"):
        fuzzing.run_targets(run, 1)
    assert run.total("failed") == (1 if finds else 0)
    row = (tmp_path / "fuzz-report.md").read_text().splitlines()[-1]
    assert row == f"| json | 3 | 99 | 34 | {1 if finds else 0} |"
