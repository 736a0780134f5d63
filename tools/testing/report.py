"""Counting and printing: phases with their times, and the verdict at the end."""
import contextlib
import dataclasses
import subprocess
import sys
import time

from testing import ROOT_FOLDER, LOG_FOLDER


class PhaseFailed(Exception):
    """A phase could not do its work (a build that fails, a tool that is missing): counts as one failure."""


@dataclasses.dataclass
class Phase:
    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0


class Report:
    """Collects the phases of one run. A phase that raises is a failure, never a silent end."""

    def __init__(self):
        self.phases = []
        self.failures = []      # (phase, what)
        self.skips = []         # (phase, why)
        self._current = None

    @contextlib.contextmanager
    def phase(self, name):
        phase = self._current = Phase(name)
        self.phases.append(phase)
        print(f"== {name}", flush=True)
        started = time.monotonic()
        try:
            yield phase
        except PhaseFailed as failure:
            self.fail(str(failure))
        finally:
            phase.seconds = time.monotonic() - started
            print(f"   {phase.passed} passed, {phase.failed} failed, {phase.skipped} skipped "
                  f"in {phase.seconds:.1f} s", flush=True)
            self._current = None

    def ok(self, count=1):
        self._current.passed += count

    def fail(self, what):
        self._current.failed += 1
        self.failures.append((self._current.name, what))
        print(f"   FAILED {what}", flush=True)

    def skip(self, why, count=1):
        self._current.skipped += count
        self.skips.append((self._current.name, why))

    def note(self, text):
        print(f"   {text}", flush=True)

    def total(self, field):
        return sum(getattr(phase, field) for phase in self.phases)

    def failed_since(self, mark):
        """Failures in the phases after the first `mark` ones."""
        return sum(phase.failed for phase in self.phases[mark:])

    def print_summary(self):
        """The tables for people, then the plain line for programs. Returns the exit code."""
        print("\n== summary")
        for phase in self.phases:
            print(f"{phase.name:28} {phase.seconds:7.1f} s  {phase.passed:5} passed {phase.failed:3} failed "
                  f"{phase.skipped:3} skipped")
        print(f"{'total':28} {self.total('seconds'):7.1f} s")
        for title, entries in (("skipped", self.skips), ("failed", self.failures)):
            for phase, what in entries:
                print(f"{title}: {phase}: {what.splitlines()[0] if what else ''}")
        print(f"{self.total('passed')} passed, {self.total('failed')} failed, {self.total('skipped')} skipped",
              flush=True)
        return 1 if self.total("failed") or not self.total("passed") else 0


def run(command, log_name, env=None, timeout_s=3600, check=True):
    """Runs a command in the project's root with its output in a log file; returns (exit code, output).

    With `check`, a failure raises PhaseFailed after printing the end of the output.
    """
    LOG_FOLDER.mkdir(parents=True, exist_ok=True)
    log = LOG_FOLDER / f"{log_name}.log"
    with log.open("wb") as file:
        try:
            code = subprocess.run([str(part) for part in command], cwd=ROOT_FOLDER, env=env, timeout=timeout_s,
                                  stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT).returncode
        except subprocess.TimeoutExpired:
            code = 124
            file.write(f"\n(ended after {timeout_s} s)\n".encode())
        except FileNotFoundError as error:
            raise PhaseFailed(f"{command[0]} is not installed ({error})") from error
    output = log.read_text(errors="replace")
    if check and code != 0:
        sys.stdout.write(tail(output))
        raise PhaseFailed(f"{' '.join(map(str, command))[:200]}: exit status {code}, {log.relative_to(ROOT_FOLDER)}")
    return code, output


def tail(text, lines=80):
    """The last lines of a tool's output, indented under the phase."""
    return "".join(f"   | {line}\n" for line in text.splitlines()[-lines:])
