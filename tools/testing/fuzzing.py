"""Runs the libFuzzer targets of build/fuzz and reports executions, coverage and findings."""
import concurrent.futures
import dataclasses
import re
import shutil
import subprocess
import sys

from testing import BUILD_FOLDER, ROOT_FOLDER
from testing.report import tail

AT_A_TIME = 2
# An input that takes longer, or makes the process larger, is a finding: inputs are at most 1 MB.
TIMEOUT_S = 10
RSS_LIMIT_MB = 2048


@dataclasses.dataclass
class Outcome:
    target: str
    executions: int
    coverage: int
    seconds: int
    findings: list
    exit_code: int
    output: str


def run_targets(report, seconds):
    """Each target starts from its committed corpus; new inputs stay in build/fuzz/work, findings are failures."""
    targets = sorted((BUILD_FOLDER / "fuzz" / "bin").glob("*_fuzz"))
    if not targets:
        report.skip("no fuzz targets are built")
        return
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        outcomes = list(pool.map(lambda target: fuzz(target, seconds), targets))
    for outcome in outcomes:
        if outcome.exit_code == 0 and not outcome.findings and outcome.executions > 0:
            report.ok()
        else:
            sys.stdout.write(tail(outcome.output, 60))
            report.fail(f"{outcome.target}: exit status {outcome.exit_code}, {outcome.executions} executions, "
                        f"findings {' '.join(outcome.findings) or 'none'}")
    table = ["| target | seconds | executions | coverage (edges) | findings |", "|---|---|---|---|---|"]
    table += [f"| {o.target} | {o.seconds} | {o.executions:,} | {o.coverage:,} | {len(o.findings)} |" for o in outcomes]
    (BUILD_FOLDER / "fuzz-report.md").write_text("\n".join(table) + "\n")
    for line in table:
        report.note(line)


def fuzz(target, seconds):
    name = target.name.removesuffix("_fuzz")
    work = BUILD_FOLDER / "fuzz" / "work" / name
    found = BUILD_FOLDER / "fuzz" / "findings" / name
    shutil.rmtree(found, ignore_errors=True)
    found.mkdir(parents=True)
    work.mkdir(parents=True, exist_ok=True)
    corpus = ROOT_FOLDER / "tests" / "fuzz" / "corpus" / name
    dictionary = ROOT_FOLDER / "tests" / "fuzz" / f"{name}.dict"
    command = [target, f"-max_total_time={seconds}", f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={RSS_LIMIT_MB}",
               "-max_len=1000000", "-print_final_stats=1", f"-artifact_prefix={found}/"]
    if dictionary.exists():
        command.append(f"-dict={dictionary}")
    command.append(work)
    if corpus.is_dir():
        command.append(corpus)
    done = subprocess.run([str(part) for part in command], cwd=ROOT_FOLDER, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    executions = re.findall(r"stat::number_of_executed_units:\s+(\d+)", done.stdout)
    coverage = re.findall(r"cov: (\d+)", done.stdout)
    ran = re.findall(r"Done \d+ runs in (\d+) second", done.stdout)
    return Outcome(name, int(executions[-1]) if executions else 0, int(coverage[-1]) if coverage else 0,
                   int(ran[-1]) if ran else seconds, sorted(path.name for path in found.iterdir()), done.returncode,
                   done.stdout)
