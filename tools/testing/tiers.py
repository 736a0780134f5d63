"""The long tiers of `scripts/test --all[=PART]`. A tier is one function with the @tier decorator."""
import dataclasses
import os
from typing import Callable

from testing import BUILD_FOLDER, ROOT_FOLDER, fuzzing, tidy
from testing.clients import CLIENTS, check_client
from testing.phases import get_model
from testing.suites import build, run_pytest, run_unit_tests


@dataclasses.dataclass
class Tier:
    name: str
    help: str
    sources: tuple        # paths whose change makes the tier due again
    run: Callable


TIERS = {}
PROGRAM = ("src", "web", "cmake", "CMakeLists.txt", "CMakePresets.json", "data")


def tier(name, help_text, sources):
    def register(function):
        TIERS[name] = Tier(name, help_text, sources, function)
        return function
    return register


@tier("sanitize", "unit and end-to-end tests with AddressSanitizer, LeakSanitizer and UBSan",
      (*PROGRAM, "tests/e2e", "tests/golden", "tests/fuzz"))
def sanitize(report):
    environment = {"ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1",
                   # What libraries keep to their end is theirs.
                   "LSAN_OPTIONS": f"suppressions={ROOT_FOLDER / 'tests' / 'leaks.supp'}:print_suppressions=0",
                   "UBSAN_OPTIONS": "print_stacktrace=1", "STRATA_BIN": str(BUILD_FOLDER / "dev" / "bin" / "strata")}
    with report.phase("sanitize: build dev"):
        build("dev")
        report.ok()
    with report.phase("sanitize: unit tests"):
        run_unit_tests(report, "dev", "sanitize-unit", environment)
    with report.phase("sanitize: end to end"):
        run_pytest(report, "tests/e2e", "sanitize-e2e", environment,
                   arguments=("--timeout=900", "-m", "not slow and not bounds and not release_build"))


@tier("tsan", "unit tests with ThreadSanitizer", (*PROGRAM, "tests/golden"))
def tsan(report):
    with report.phase("tsan: build tsan"):
        build("tsan", ["unit_tests"])
        report.ok()
    with report.phase("tsan: unit tests"):
        # Without address space randomisation: this ThreadSanitizer knows fewer layouts than new kernels use.
        run_unit_tests(report, "tsan", "tsan-unit", {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:"
                                                      f"suppressions={ROOT_FOLDER / 'tests' / 'races.supp'}"},
                       prefix=("setarch", "-R"))


# Instruction-set levels and the processor flags (/proc/cpuinfo) each needs.
AVX2 = ("avx2", "fma", "f16c")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
ISA_LEVELS = {
    "scalar": (),
    "avx2": AVX2,
    "avx_vnni": (*AVX2, "avx_vnni"),
    "avx512": AVX512,
    "avx512_vnni": (*AVX512, "avx512_vnni"),
    "avx512_bf16": (*AVX512, "avx512_vnni", "avx512_bf16"),
}


@tier("isa", "unit and golden tests at each instruction-set level of this machine",
      ("src/base", "src/numeric", "src/kernels", "src/ops", "src/exec", "src/model", "src/engine",
       "tests/golden", "tests/isa"))
def isa(report):
    with report.phase("isa: build release"):
        build("release")
        report.ok()
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        flags = next((line for line in cpuinfo if line.startswith("flags")), "").split()
    for level, needed in ISA_LEVELS.items():
        with report.phase(f"isa: {level}"):
            lacking = [flag for flag in needed if flag not in flags]
            if lacking:
                report.skip(f"this machine lacks {' '.join(lacking)}")
            else:
                run_unit_tests(report, "release", f"isa-{level}", {"STRATA_ISA": level})
    with report.phase("isa: older processors (qemu)"):
        run_pytest(report, "tests/isa", "isa-qemu")


@tier("models", "the four real models: perplexity, greedy text, tokenizers", PROGRAM)
def models(report):
    with report.phase("models: build release"):
        build("release")
        report.ok()
    with report.phase("models: fetch"):
        get_model(report, "--all")
    with report.phase("models: tests"):
        run_unit_tests(report, "release", "models", label="models")


@tier("fuzz", "every fuzz target for FUZZ_SECONDS, two at a time", ("src", "tests/fuzz", "cmake"))
def fuzz(report):
    with report.phase("fuzz: build fuzz"):
        build("fuzz", ["fuzzers"])
        report.ok()
    with report.phase("fuzz: run"):
        fuzzing.run_targets(report, int(os.environ.get("FUZZ_SECONDS", "600")))


@tier("clients", "other people's clients against the server", (*PROGRAM, "tests/clients", "tests/support", "tests/conftest.py"))
def clients(report):
    with report.phase("clients: build release"):
        build("release")
        report.ok()
    with report.phase("clients: default model"):
        get_model(report, "--default")
    for name in CLIENTS:
        with report.phase(f"clients: {name}"):
            check_client(report, name)


@tier("tidy", "clang-tidy over every file", ("src", "tests", "cmake", ".clang-tidy"))
def tidy_all(report):
    with report.phase("tidy: build release"):
        build("release")
        report.ok()
    with report.phase("tidy: all files"):
        tidy.run_all(report)


@tier("soak", "a server under load for long: memory flat, nothing lost", (*PROGRAM, "tests/e2e", "tests/soak", "tests/support"))
def soak(report):
    with report.phase("soak: build release"):
        build("release")
        report.ok()
    with report.phase("soak: tests"):
        get_model(report, "--default")
        run_pytest(report, "tests/soak", "soak", timeout_s=7200, arguments=("--timeout=3600",))
    with report.phase("soak: slow end-to-end tests"):
        run_pytest(report, "tests/e2e", "soak-e2e", timeout_s=7200, arguments=("--timeout=3600", "-m", "slow"))
