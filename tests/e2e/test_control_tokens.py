"""Control-token spellings in user text stay text; each prompt has exactly one BOS (case C09)."""
import json
import subprocess

import pytest

from api import CHAT, COMPLETIONS, answer, case_json, error, post
from conftest import require_case

GREEDY = "alpha beta😀 gamma delta epsilon"
CONTROL_IDS = {0, 1, 2, 260, 261, 262}     # cases/common/CHAIN.md


def prompt_tokens(server, messages):
    reply = answer(server, CHAT, {**case_json("C09/body.json"), "messages": messages})
    assert reply["choices"][0]["message"]["content"] == GREEDY
    return reply["usage"]["prompt_tokens"]


@pytest.mark.parametrize("entry", range(7))
def test_spellings_in_messages_are_text(chain, entry):
    case = case_json("C09/cases.json")[entry]
    said = {"role": "user", "content": case["content"]}
    assert prompt_tokens(chain, [said]) == case["prompt_tokens"]
    # As a system message with "hi" after it: the role token, two letters and </s> more.
    assert prompt_tokens(chain, [{**said, "role": "system"}, {"role": "user", "content": "hi"}]) == case["prompt_tokens"] + 4


def test_unknown_role_is_refused_with_the_templates_message(chain):
    found = error(chain, CHAT, case_json("C09/role.json"), 400)
    assert "role" in found["message"] and found["param"] == "messages"


def test_parts_are_joined_with_nothing(chain):
    assert answer(chain, CHAT, case_json("C09/parts.json"))["usage"]["prompt_tokens"] == 19


def test_raw_prompts_have_one_bos(chain):
    """A completion's text gets BOS unless it spells it itself; parse_special false makes the spelling text."""
    def ids(prompt, **fields):
        body = {"model": "chain", "prompt": prompt, "max_tokens": 1, **fields}
        return answer(chain, COMPLETIONS, body)["usage"]["prompt_tokens"]
    assert ids("ab") == 3
    assert ids("<s>ab") == 3
    assert ids("<s>ab", parse_special=False) == 6
    assert ids([1, 262]) == 2


def tokenize(strata, text, *flags):
    done = subprocess.run([strata, "tokenize", require_case("common/chain.gguf"), "--text", text, "--json", *flags],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["ids"]


@pytest.mark.parametrize("entry", range(7))
def test_tokenize_parses_control_tokens_only_when_asked(strata, chain, entry):
    text = case_json("C09/cases.json")[entry]["content"]
    plain, special = tokenize(strata, text), tokenize(strata, text, "--special")
    assert plain[:1] == [1]     # BOS is the tokenizer's own, once
    assert not CONTROL_IDS & set(plain[1:])
    spelled = any(spelling in text for spelling in ("<s>", "</s>", "<|system|>", "<|assistant|>"))
    assert bool(CONTROL_IDS & set(special[1:])) == spelled or text == "<s><s><s>"
    assert special.count(1) == (3 if text == "<s><s><s>" else 1)
    for mode, expected in ((False, plain), (True, special)):
        reply = post(chain, "/tokenize", {"text": text, "special": mode})
        assert reply.status_code == 200 and reply.json()["ids"] == expected


def test_tokenize_help_says_what_special_does(strata):
    text = subprocess.run([strata, "tokenize", "--help"], capture_output=True, text=True, check=True).stdout
    assert "--special" in text and "control tokens" in text
