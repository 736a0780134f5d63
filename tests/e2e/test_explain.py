"""strata explain: numbers that can be checked by hand, pictures, what is refused."""
import json
import math
import subprocess

from conftest import require_case


def run(strata, *arguments):
    return subprocess.run([strata, "explain", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


def test_online_softmax(strata):
    done = run(strata, "online-softmax", "--json")
    result = json.loads(done.stdout)
    assert [round(p, 3) for p in result["softmax"]] == [0.232, 0.085, 0.631, 0.052]
    assert [s["max"] for s in result["steps"]] == [2, 3]
    text = run(strata, "online-softmax").stdout
    assert "0.232, 0.085, 0.631, 0.052" in text


def test_attention_of_random_projections_and_of_a_model(strata, tmp_path):
    for model in ([], [require_case("common/chain.gguf")]):
        out = tmp_path / f"pictures{len(model)}"
        result = json.loads(run(strata, "attention", *model, "--text", "the cat sat on it", "--out", out, "--json").stdout)
        for head in result["weights"]:
            for i, row in enumerate(head):
                assert abs(sum(row) - 1) < 1e-9 and all(w == 0 for w in row[i + 1:])
        assert {p.name for p in out.iterdir()} == {"attention_heatmap.png", "multihead_comparison.png", "attention.html"}
    text = run(strata, "attention").stdout
    assert "Strongest links:" in text and " -> " in text


def test_cross_attention(strata, tmp_path):
    result = json.loads(run(strata, "attention", "--text", "le chat dort", "--cross", "the cat is asleep", "--out", tmp_path, "--json").stdout)
    assert result["tokens"] == ["le", "chat", "dort"] and result["key_tokens"] == ["the", "cat", "is", "asleep"]
    for head in result["weights"]:
        assert [len(row) for row in head] == [4, 4, 4] and all(abs(sum(row) - 1) < 1e-9 and min(row) > 0 for row in head)
    assert all(link["from"] in result["tokens"] and link["to"] in result["key_tokens"] for link in result["links"])
    assert len(list(tmp_path.iterdir())) == 3


def test_sampling(strata):
    done = run(strata, "sampling", require_case("common/chain.gguf"), "-p", "hi", "--json")
    result = json.loads(done.stdout)
    distributions = result["distributions"]
    assert distributions["greedy"][0] == 1 and sum(distributions["top-k 5"][5:]) == 0
    assert distributions["temperature 0.1"][0] >= distributions["temperature 1"][0] >= distributions["temperature 1.5"][0]


def test_the_repetition_penalty_by_its_definition(strata):
    prompt = "hi hi"
    result = json.loads(run(strata, "sampling", require_case("common/chain.gguf"), "-p", prompt, "--top", 1000, "--json").stdout)
    assert any(result["in_prompt"]) and not all(result["in_prompt"])
    logits = [(z / 1.3 if z > 0 else z * 1.3) if seen else z for z, seen in zip(result["logits"], result["in_prompt"])]
    total = sum(math.exp(z) for z in logits)
    for z, share in zip(logits, result["distributions"]["repetition penalty 1.3"]):
        assert math.isclose(share, math.exp(z) / total, rel_tol=1e-9, abs_tol=1e-12)


def test_refused(strata):
    assert run(strata, "attention", "--head", 99).returncode == 2
    assert run(strata, "attention", "--text", "").returncode == 2
    assert run(strata, "attention", "--layer", 1).returncode == 2
    assert run(strata, "sampling").returncode == 2
