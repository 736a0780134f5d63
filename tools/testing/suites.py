"""Running the two kinds of test program, ctest's (gtest inside) and pytest's, and counting their cases."""
import os
import shutil
import sys
import xml.etree.ElementTree

from testing import BUILD_FOLDER, CORES, LOG_FOLDER, ROOT_FOLDER
from testing.report import PhaseFailed, run, tail


def build(preset, targets=()):
    """Configures (when needed) and builds one CMake preset."""
    if not (BUILD_FOLDER / preset / "build.ninja").exists():
        run(["cmake", "--preset", preset], f"configure-{preset}")
    command = ["cmake", "--build", "--preset", preset]
    if targets:
        command += ["--target", *targets]
    run(command, f"build-{preset}")


def run_unit_tests(report, preset, log_name, environment=None, label="unit", prefix=()):
    """Runs the gtest programs of a preset through ctest; every gtest case counts as one test.

    prefix: a command every test runs under, ctest itself included (`setarch -R`).
    """
    results = LOG_FOLDER / f"{log_name}-gtest"
    shutil.rmtree(results, ignore_errors=True)
    env = dict(os.environ, GTEST_OUTPUT=f"xml:{results}/", **(environment or {}))
    junit = LOG_FOLDER / f"{log_name}-ctest.xml"
    junit.unlink(missing_ok=True)
    code, output = run([*prefix, "ctest", "--test-dir", BUILD_FOLDER / preset, "-L", label, "-LE", "lint", "-j", CORES,
                        "--output-on-failure", "--output-junit", junit], log_name, env=env, check=False)
    if not junit.exists():
        sys.stdout.write(tail(output))
        raise PhaseFailed(f"ctest did not run: exit status {code}")
    failed_before = report.total("failed")
    programs = list(xml.etree.ElementTree.parse(junit).getroot().iter("testcase"))
    failures = {path.stem: count_gtest_cases(report, xml.etree.ElementTree.parse(path).getroot(), path.stem)
                for path in sorted(results.glob("*.xml"))}
    for program in programs:
        cases_failed = failures.get(f"strata_{program.get('name')}_test")  # None: not a gtest program, or it crashed
        if program.get("status") == "run" and cases_failed is None:
            report.ok()
        elif program.get("status") == "fail" and not cases_failed:
            # A crash or a time-out leaves no list of cases, and a leak is found after the last case.
            report.fail(f"{program.get('name')}: ended abnormally")
        elif program.get("status") not in ("run", "fail"):
            report.fail(f"{program.get('name')}: {program.get('status')}")
    if report.total("failed") > failed_before:
        sys.stdout.write(tail(output, 200))
    elif code != 0:
        raise PhaseFailed(f"ctest: exit status {code} though no test failed")
    if not programs:
        raise PhaseFailed("no unit tests were found")


def count_gtest_cases(report, suites, program):
    """Counts the cases of one gtest program, <testsuites> of its XML; returns how many failed."""
    failed = 0
    for case in suites.iter("testcase"):
        name = f"{program}: {case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None:
            failed += 1
            report.fail(name)
        elif case.get("result") == "skipped":
            reason = case.find("skipped").get("message", "").strip().splitlines()
            report.skip(f"{name}: {reason[-1] if reason else 'no reason given'}")
        elif case.get("status") == "run":
            report.ok()
    return failed


def run_pytest(report, folder, log_name, environment=None, timeout_s=3600, arguments=(), python=sys.executable):
    """Runs a folder of Python tests or one file of them; skipped (with the reason) when the folder has none yet."""
    if not (ROOT_FOLDER / folder).is_file() and not list((ROOT_FOLDER / folder).glob("**/test_*.py")):
        report.skip(f"{folder} holds no tests")
        return
    junit = LOG_FOLDER / f"{log_name}-pytest.xml"
    junit.unlink(missing_ok=True)
    env = dict(os.environ, **(environment or {}))
    code, output = run([python, "-m", "pytest", "-ra", "-p", "no:cacheprovider", f"--junitxml={junit}",
                        "--timeout=300", *arguments, folder],
                       log_name, env=env, timeout_s=timeout_s, check=False)
    if not junit.exists():
        sys.stdout.write(tail(output))
        raise PhaseFailed(f"pytest {folder} did not finish: exit status {code}")
    failed_before = report.total("failed")
    for case in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            report.fail(name)
        elif (skipped := case.find("skipped")) is not None:
            report.skip(f"{name}: {skipped.get('message')}")
        else:
            report.ok()
    if report.total("failed") > failed_before:
        sys.stdout.write(tail(output, 200))
    elif code != 0:
        sys.stdout.write(tail(output))
        raise PhaseFailed(f"pytest {folder}: exit status {code} though no test failed")
