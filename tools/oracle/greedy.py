#!/usr/bin/env python3
"""Greedy continuations of the real models, for teacher-forced comparisons.

    greedy.py --models FOLDER --llama-tokenize PROGRAM [NAME ...]

For each model of data/catalogue.json (or those named): ten prompts tokenized by llama.cpp's
llama-tokenize, continued for 64 tokens by transformers, which decodes the GGUF file's weights to
f32 and computes in f32. End tokens do not stop it. Writes tests/golden/greedy/NAME.json:
  prompts[i].text, .prompt_ids, .ids (64), .gaps (64): gaps[j] is the difference of the two best
  logits where ids[j] was chosen. Control spellings in the prompts are parsed.
Needs torch, transformers, accelerate and gguf, and 4 bytes of memory per parameter.
"""
import argparse
import json
import pathlib
import subprocess

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/golden/greedy"
STEPS = 64
PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a village by the sea,",
    "Water boils at 100 degrees Celsius because",
    "1, 1, 2, 3, 5, 8, 13,",
    "Die Hauptstadt von Deutschland ist",
    "Q: Name three primary colours.\nA:",
    "#include <stdio.h>\n\nint main(void) {",
    "The quick brown fox jumps over the lazy dog. " * 8,
    "In 1969, Neil Armstrong became the first person to walk on the",
]


def tokenize(program, model, text):
    out = subprocess.run([program, "-m", str(model), "-p", text, "--ids", "--log-disable"],
                         check=True, capture_output=True, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--llama-tokenize", required=True)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    OUT.mkdir(parents=True, exist_ok=True)
    for entry in json.loads((ROOT / "data/catalogue.json").read_text())["models"]:
        if args.names and entry["name"] not in args.names:
            continue
        path = args.models / entry["file"]
        model = transformers.AutoModelForCausalLM.from_pretrained(
            args.models, gguf_file=entry["file"], dtype=torch.float32).eval()
        prompts = []
        for text in PROMPTS:
            prompt_ids = tokenize(args.llama_tokenize, path, text)
            ids, gaps, cache = [], [], None
            step = torch.tensor([prompt_ids])
            for _ in range(STEPS):
                out = model(step, past_key_values=cache, use_cache=True, logits_to_keep=1)
                cache = out.past_key_values
                best = torch.topk(out.logits[0, -1], 2)
                ids.append(int(best.indices[0]))
                gaps.append(round(float(best.values[0] - best.values[1]), 4))
                step = torch.tensor([[ids[-1]]])
            prompts.append({"text": text, "prompt_ids": prompt_ids, "ids": ids, "gaps": gaps})
            print(entry["name"], repr(text[:30]), ids[:8], flush=True)
        record = {
            "provenance": {
                "script": "tools/oracle/greedy.py", "model": entry["name"],
                "model_sha256": entry["sha256"], "torch": torch.__version__,
                "transformers": transformers.__version__, "dtype": "float32",
                "tokenizer": "llama-tokenize of llama.cpp as in llama-cpp-python 0.3.36",
            },
            "prompts": prompts,
        }
        lines = ",\n  ".join(json.dumps(p) for p in prompts)
        (OUT / f"{entry['name']}.json").write_text(
            '{"provenance": %s,\n "prompts": [\n  %s\n ]}\n' % (json.dumps(record["provenance"]), lines))
        del model


if __name__ == "__main__":
    main()
