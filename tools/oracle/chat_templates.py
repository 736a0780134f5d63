#!/usr/bin/env python3
"""Goldens of the chat template engine: what jinja2, set up by transformers, makes of each case.

    python tools/oracle/chat_templates.py                       writes tests/golden/chat_templates/*.json
    python tools/oracle/chat_templates.py --random 4000 --seed 7 --out DIR      two files for a comparison

The second form is compared by STRATA_TEMPLATE_CASES=DIR strata_text_test --gtest_filter='ChatTemplateGolden.*'.
Needs jinja2 and transformers (requirements of tools/oracle). The snippets are in chat_template_snippets.py, the
re-created public templates in chat_template_models.py and chat_template_tools.py, the random programs over all
expressions in chat_template_random.py, those about names and blocks in chat_template_blocks.py.
"""
import argparse
import datetime
import json
import pathlib
import random
import sys

import jinja2
import transformers
from transformers.utils import chat_template_utils

import chat_template_blocks
import chat_template_models
import chat_template_random
import chat_template_snippets
import chat_template_tools

RANDOM = {"random": chat_template_random, "blocks": chat_template_blocks}
UNIX_TIME = 1721001600  # 2024-07-15 00:00:00 UTC
BOS, EOS = "<s>", "</s>"


def fixed_strftime(pattern):
    moment = datetime.datetime.fromtimestamp(UNIX_TIME, datetime.timezone.utc).replace(tzinfo=None)
    return moment.strftime(pattern)


class Raised(Exception):
    pass


def raise_exception(message):
    raise Raised(str(message))


def run(case):
    """Adds `expected`, or `error` (parse, raised, render) and `message`, to a case."""
    inputs = case["inputs"]
    try:
        template = chat_template_utils._compile_jinja_template(case["template"])
    except jinja2.exceptions.TemplateSyntaxError as error:
        return {**case, "error": "parse", "message": str(error)}
    except Exception as error:  # Python's own SyntaxError, RecursionError, AssertionError
        return {**case, "error": "parse", "message": str(error)}
    template.environment.globals["strftime_now"] = fixed_strftime
    template.environment.globals["raise_exception"] = raise_exception
    variables = {
        "messages": inputs.get("messages", []),
        "tools": inputs.get("tools"),
        "documents": None,
        "add_generation_prompt": inputs.get("add_generation_prompt", True),
        "bos_token": BOS,
        "eos_token": EOS,
        **(inputs.get("extra") or {}),
    }
    try:
        text = template.render(**variables)
    except Raised as error:
        return {**case, "error": "raised", "message": str(error)}
    except RecursionError as error:
        return {**case, "error": "render", "message": str(error)}
    except Exception as error:  # whatever Python raises inside a template
        return {**case, "error": "render", "message": f"{type(error).__name__}: {error}"}
    return {**case, "expected": text}


def is_comparable(case):
    """Leaves out what shows addresses or methods, lone surrogates or long integers."""
    text = case.get("expected", "")
    if " at 0x" in text or " object" in text or "<bound method" in text or len(text) > 20000:
        return False
    if "Exceeds the limit" in case.get("message", "") or "complex" in text:
        return False
    digits = "".join(c if c.isdigit() else " " for c in text).split()
    if any(len(d) > 18 for d in digits) and "e" not in text:
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def write(path, cases):
    provenance = {
        "script": "tools/oracle/chat_templates.py",
        "jinja2": jinja2.__version__,
        "transformers": transformers.__version__,
        "python": sys.version.split()[0],
        "unix_time": UNIX_TIME,
        "bos_token": BOS,
        "eos_token": EOS,
    }
    # A case without "template" has that of the case before it; one with "inputs_of" those of the case so named.
    shown, previous, first_with = [], None, {}
    for case in cases:
        kept = {k: v for k, v in case.items() if k != "template" or v != previous}
        owner = first_with.setdefault(json.dumps(case["inputs"]), case["name"])
        if owner != case["name"]:
            kept.pop("inputs")
            kept["inputs_of"] = owner
        shown.append(kept)
        previous = case["template"]
    with open(path, "w", encoding="utf-8") as out:
        head = json.dumps(provenance, ensure_ascii=False)
        body = ",\n".join(json.dumps(c, ensure_ascii=False) for c in shown)
        out.write('{"provenance": ' + head + ',\n"cases": [\n' + body + "\n]}\n")
    errors = sum("error" in c for c in cases)
    print(f"{path}: {len(cases)} cases, {errors} of them errors")


def random_cases(maker, prefix, count, seed):
    rng = random.Random(seed)
    cases = []
    while len(cases) < count:
        case = run(maker.make_case(rng, f"{prefix}-{seed}-{len(cases)}"))
        # Most programs fail somewhere; those that render say more, so only some failures are kept.
        if "error" in case and rng.random() < 0.85:
            continue
        if is_comparable(case):
            cases.append(case)
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    default = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "chat_templates"
    folder = arguments.out or default
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.random:
        for prefix, maker in RANDOM.items():
            write(folder / f"{prefix}-{arguments.seed}.json", random_cases(maker, prefix, arguments.random, arguments.seed))
        return
    write(folder / "snippets.json", [run(c) for c in chat_template_snippets.cases()])
    write(folder / "models.json", [run(c) for c in chat_template_models.cases()])
    write(folder / "tools.json", [run(c) for c in chat_template_tools.cases()])
    for prefix, maker in RANDOM.items():
        write(folder / f"{prefix}.json", random_cases(maker, prefix, 150, 101))


if __name__ == "__main__":
    main()
