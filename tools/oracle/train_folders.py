#!/usr/bin/env python3
"""Logits that transformers computes from folders `strata train` writes: tests/golden/train/folders.json.

The folders are those of src/train/gpt_folder_test.cpp, which writes them where STRATA_WRITE_FOLDERS says:

  mkdir F; STRATA_WRITE_FOLDERS=F strata_train_test --gtest_filter='*ReadBack*'
  python tools/oracle/train_folders.py F
"""
import json
import pathlib
import sys

import torch
import transformers
from architectures import build
from safetensors.torch import load_file
from tokenizers import Tokenizer

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/train/folders.json"
TOKENS = [i * 7 % 11 for i in range(12)]


def main():
    torch.set_num_threads(1)
    folders = sorted(pathlib.Path(sys.argv[1]).iterdir())
    # As users load it, and the weights before float32 gets another meaning.
    weights = {}
    for folder in folders:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        assert tokenizer.encode("abj").ids == [0, 1, 9] and tokenizer.decode([0, 1, 9]) == "abj"
        if json.loads((folder / "config.json").read_text())["model_type"] != "strata_gpt":
            transformers.AutoModelForCausalLM.from_pretrained(folder)
            weights[folder] = load_file(folder / "model.safetensors")
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    logits = {}
    for folder, tensors in weights.items():
        model = build(json.loads((folder / "config.json").read_text())).to(torch.float64)
        missing, unexpected = model.load_state_dict({k: v.double() for k, v in tensors.items()}, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
        model.tie_weights()
        with torch.no_grad():
            out = model(torch.tensor([TOKENS]), use_cache=False).logits[0]
        logits[folder.name] = [round(v, 12) for v in out.double().flatten().tolist()]
    OUT.write_text(json.dumps({"provenance": {"script": "tools/oracle/train_folders.py",
                                              "transformers": transformers.__version__,
                                              "torch": torch.__version__.split("+")[0]},
                               "logits": logits}) + "\n")


if __name__ == "__main__":
    main()
