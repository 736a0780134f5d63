#!/usr/bin/env python3
"""Greedy continuations of the real models by llama.cpp, for teacher-forced comparisons.

    greedy_llama.py --models FOLDER --llama-bin FOLDER [NAME ...]

For each model of data/catalogue.json (or those named): the ten prompts of greedy.py, continued for 64
tokens by llama-server at temperature 0 on one thread pool of two. End tokens do not stop it. Writes
tests/golden/greedy_llama/NAME.json in the form of greedy.py: prompts[i].text, .prompt_ids, .ids (64) and
.gaps (64), the difference of the log probabilities (equal to that of the logits) of the two best tokens.
Needs llama.cpp's llama-server and llama-tokenize; standard library only.
"""
import argparse
import json
import pathlib
import re
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/golden/greedy_llama"
STEPS = 64
PORT = 18931


def prompts():
    """The texts of greedy.py, which needs torch and cannot be imported here."""
    source = (ROOT / "tools/oracle/greedy.py").read_text()
    return eval(re.search(r"^PROMPTS = (\[.*?^\])", source, re.M | re.S)[1], {})


def post(path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def wait_until_ready(server):
    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit("llama-server ended")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("llama-server does not get ready")


def continuation(text):
    prompt_ids = post("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]
    answer = post("/completion", {"prompt": prompt_ids, "n_predict": STEPS, "temperature": 0, "n_probs": 2,
                                  "ignore_eos": False, "logit_bias": [], "cache_prompt": False,
                                  "stop": [], "return_tokens": True})
    steps = answer["completion_probabilities"]
    ids = [step["id"] for step in steps]
    gaps = [round(step["top_logprobs"][0]["logprob"] - step["top_logprobs"][1]["logprob"], 4) for step in steps]
    return {"text": text, "prompt_ids": prompt_ids, "ids": ids, "gaps": gaps}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--llama-bin", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    for entry in json.loads((ROOT / "data/catalogue.json").read_text())["models"]:
        if args.names and entry["name"] not in args.names:
            continue
        server = subprocess.Popen([args.llama_bin / "llama-server", "-m", args.models / entry["file"], "-t", "2",
                                   "-c", "1024", "-np", "1", "--port", str(PORT), "--host", "127.0.0.1"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until_ready(server)
            lines = [json.dumps(continuation(text)) for text in prompts()]
        finally:
            server.terminate()
            server.wait()
        provenance = {"script": "tools/oracle/greedy_llama.py", "model": entry["name"],
                      "model_sha256": entry["sha256"], "program": "llama-server of llama-cpp-python 0.3.36 (AVX2)"}
        (OUT / f"{entry['name']}.json").write_text(
            '{"provenance": ' + json.dumps(provenance) + ',\n "prompts": [\n  ' + ",\n  ".join(lines) + "\n ]}\n")
        print(entry["name"])


if __name__ == "__main__":
    main()
