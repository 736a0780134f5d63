"""The command line of scripts/test."""
import argparse
import os
import sys
import time

from testing import phases, state, tiers
from testing.report import PhaseFailed, Report


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/test", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Builds and tests strata. The last line is `N passed, N failed, N skipped`; the exit code is "
                    "the verdict.",
        epilog="long tiers:\n" + "".join(f"  {tier.name:10} {tier.help}\n" for tier in tiers.TIERS.values())
               + "\nenvironment:\n"
                 "  STRATA_TEST_DATA=DIR      texts and traces (default ../shared/data)\n"
                 "  STRATA_REQUIRE_DATA=1     a test skipped for missing data or models is a failure\n"
                 "  STRATA_HOME=DIR           models, and which tier passed at which commit (default ~/.cache/strata)\n"
                 "  FUZZ_SECONDS=N            time of one fuzz target (default 600)\n")
    parser.add_argument("--quick", action="store_true", help="lint, build and unit tests only")
    parser.add_argument("--all", nargs="?", const="", metavar="PART,..", dest="parts",
                        help="the long tiers: without PART the short tests and then each tier whose sources changed "
                             "since it last passed; with PART that tier, whatever happened before")
    args = parser.parse_args()
    args.parts = None if args.parts is None else [part for part in args.parts.split(",") if part]
    unknown = [part for part in args.parts or [] if part not in tiers.TIERS]
    if unknown:
        parser.error(f"no tier named {', '.join(unknown)}; there are {', '.join(tiers.TIERS)}")
    return args


def run_tiers(report, chosen):
    for tier in chosen:
        mark = len(report.phases)
        started = time.monotonic()
        try:
            tier.run(report)
        except PhaseFailed as failure:
            with report.phase(tier.name):
                report.fail(str(failure))
        ran = any(phase.passed for phase in report.phases[mark:])
        if ran and not report.failed_since(mark):
            state.remember(tier.name, time.monotonic() - started)


def main():
    args = parse_arguments()
    report = Report()
    if args.parts:
        run_tiers(report, [tiers.TIERS[part] for part in args.parts])
    else:
        phases.run_short(report, quick=args.quick)
        if args.parts is not None:
            due = []
            for tier in tiers.TIERS.values():
                passed_at = state.passed_unchanged(tier.name, tier.sources)
                if passed_at:
                    print(f"== {tier.name}: passed at {passed_at[:12]}, its sources have not changed since")
                else:
                    due.append(tier)
            run_tiers(report, due)
    install_seconds = os.environ.get("STRATA_INSTALL_SECONDS")
    if install_seconds:
        print(f"\ninstalling took {install_seconds} s")
    sys.exit(report.print_summary())


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
