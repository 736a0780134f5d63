"""Git questions, and the memory of which long tier passed at which commit ($STRATA_HOME/test-state)."""
import json
import subprocess

from testing import ROOT_FOLDER, strata_home


def git(*arguments):
    """Output of a git command, or None if it fails (not a repository, no such commit)."""
    done = subprocess.run(["git", *arguments], cwd=ROOT_FOLDER, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def changed_files(commit, paths=()):
    """Files that differ between `commit` and the working tree, new ones included."""
    tracked = git("diff", "--name-only", commit, "--", *paths) or ""
    untracked = git("ls-files", "--others", "--exclude-standard", "--", *paths) or ""
    return sorted({*tracked.splitlines(), *untracked.splitlines()})


def comparison_base():
    """The commit this work is compared with: where it left main, or the commit before when it is main."""
    head = git("rev-parse", "HEAD")
    base = git("merge-base", "HEAD", "origin/main") or git("merge-base", "HEAD", "main")
    if base and base != head:
        return base
    return git("rev-parse", "HEAD~1") or head


def remember(tier, seconds):
    """Records that a tier passed at HEAD; a tree with changes of its own is no commit, so it is not recorded."""
    if git("status", "--porcelain") != "":
        return
    path = strata_home() / "test-state" / f"{tier}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"commit": git("rev-parse", "HEAD"), "seconds": round(seconds)}) + "\n")


def passed_unchanged(tier, sources):
    """The commit at which the tier passed, if none of its sources changed since; else None."""
    path = strata_home() / "test-state" / f"{tier}.json"
    try:
        commit = json.loads(path.read_text())["commit"]
    except (OSError, ValueError, KeyError):
        return None
    if git("cat-file", "-e", f"{commit}^{{commit}}") is None or changed_files(commit, sources):
        return None
    return commit
