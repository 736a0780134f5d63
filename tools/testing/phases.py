"""The short phases, in the order in which they run."""
import os
import subprocess
import sys

from testing import BUILD_FOLDER, ROOT_FOLDER, tidy
from testing.report import run, tail
from testing.suites import build, run_pytest, run_unit_tests


def run_short(report, quick):
    run_lint(report)
    with report.phase("build release"):
        build("release")
        report.ok()
    if report.phases[-1].failed:
        return  # nothing below can run
    with report.phase("symbols of the ISA files"):
        run_check(report, "isa-symbols", "tools/lint/check_isa_symbols.py", BUILD_FOLDER / "release")
    with report.phase("unit tests"):
        run_unit_tests(report, "release", "unit")
    if quick:
        return
    with report.phase("default model"):
        get_model(report, "--default")
    with report.phase("end to end"):
        run_pytest(report, "tests/e2e", "e2e", timeout_s=900)
    with report.phase("clang-tidy, changed files"):
        tidy.run_changed(report)


def run_lint(report):
    with report.phase("lint"):
        run_check(report, "layering", "tools/lint/check_layering.py")
        run_check(report, "rules", "tools/lint/check_rules.py")
        code, output = run(["scripts/format", "--check"], "format", check=False)
        if code == 0:
            report.ok()
        else:
            sys.stdout.write(tail(output, 20))
            report.fail("clang-format: run scripts/format")
    with report.phase("tests of the tools"):
        run_pytest(report, "tests/tools", "tools", timeout_s=300)


def run_check(report, name, script, *arguments):
    """Runs one checker of tools/lint: its exit code is the verdict, its output says where."""
    code, output = run([sys.executable, script, *arguments], f"lint-{name}", check=False)
    if code == 0:
        report.ok()
    else:
        sys.stdout.write(tail(output, 60))
        report.fail(f"{script}: {len(output.splitlines())} lines of findings")


def get_model(report, name):
    """Fetches a model. Without it the tests that need it are skipped, so that alone fails only when data is required."""
    code = subprocess.run([ROOT_FOLDER / "scripts" / "get-model", name], cwd=ROOT_FOLDER, stdin=subprocess.DEVNULL,
                          timeout=1800).returncode
    if code == 0:
        report.ok()
    elif os.environ.get("STRATA_REQUIRE_DATA") == "1":
        report.fail(f"scripts/get-model {name}: exit status {code}")
    else:
        report.skip(f"scripts/get-model {name} failed: tests that need the model are skipped")
