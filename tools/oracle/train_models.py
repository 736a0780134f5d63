#!/usr/bin/env python3
"""Loss and gradients of whole models: tests/golden/train/.

The models are those of architectures.py (tests/golden/architectures). Each gradient file is the model's folder
again with d loss / d weight in the place of the weights, so that whoever reads the weights reads the gradients:

  <model>/config.json, model.safetensors        gradients as F32, computed in float64
  <model>_bf16/config.json, model.safetensors   the same at weights rounded to bf16 (nearest, ties to even): the
                                                matrices that products read, which a table of positions is not, nor
                                                one of tokens beside another head
  cases.json                                    batch, losses, provenance

The batch: two sequences of the architectures' tokens; a target of -100 is not scored. The loss is the mean over
scored tokens of both. Run with an interpreter that has torch and transformers:  python tools/oracle/train_models.py
"""
import json
import pathlib
import shutil
import sys

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from architectures import MODELS, build
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL_FOLDER = ROOT / "tests/golden/architectures"
OUT = ROOT / "tests/golden/train"
NAMES = ["gpt2", "llama_bias", "mistral", "qwen3"]
LENGTHS = [70, 33]
BF16_NAMES = ["gpt2", "mistral"]  # one head is the embedding, one is not
IGNORED = [0, 5, 69, 71, 102]  # rows whose target is not scored


def batch():
    tokens = json.loads((MODEL_FOLDER / "cases.json").read_text())["tokens"]
    rows, targets = [], []
    first = 0
    for length in LENGTHS:
        rows += tokens[first:first + length]
        targets += tokens[first + 1:first + length + 1]
        first += length + 1
    return rows, [-100 if i in IGNORED else t for i, t in enumerate(targets)]


def rounded(weights, tied):
    """The weights as `strata train --dtype bf16` computes with them."""
    def is_operand(name, tensor):
        looked_up = name.endswith("wpe.weight") or (name.endswith("embed_tokens.weight") and not tied)
        return tensor.dim() == 2 and not looked_up
    return {k: v.to(torch.bfloat16).to(v.dtype) if is_operand(k, v) else v for k, v in weights.items()}


def main():
    torch.set_num_threads(1)
    rows, targets = batch()
    cases = [(name, name, False) for name in NAMES] + [(name + "_bf16", name, True) for name in BF16_NAMES]
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    losses = {}
    for case, name, rounds in cases:
        weights = {k: v.to(torch.float64) for k, v in load_file(MODEL_FOLDER / name / "model.safetensors").items()}
        if rounds:
            weights = rounded(weights, MODELS[name]["tie_word_embeddings"])
        model = build(MODELS[name]).to(torch.float64)
        model.load_state_dict(weights, strict=False)
        model.tie_weights()
        total, first = 0, 0
        for length in LENGTHS:
            part = torch.tensor([rows[first:first + length]])
            out = model(part, use_cache=False).logits[0]
            total = total + F.cross_entropy(out, torch.tensor(targets[first:first + length]), ignore_index=-100,
                                            reduction="sum")
            first += length
        loss = total / sum(t != -100 for t in targets)
        loss.backward()
        parameters = dict(model.named_parameters())
        gradients = {k: torch.from_numpy(parameters[k].grad.numpy().astype(np.float32)) for k in weights}
        folder = OUT / case
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(MODELS[name], indent=1) + "\n")
        save_file(gradients, folder / "model.safetensors", metadata={"format": "pt"})
        losses[case] = loss.item()
    (OUT / "cases.json").write_text(json.dumps({
        "provenance": {"script": "tools/oracle/train_models.py", "python": sys.version.split()[0],
                       "torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
                       "dtype": "float64, as architectures.py makes it; gradients rounded to float32"},
        "tokens": rows, "targets": targets, "lengths": LENGTHS, "losses": losses}) + "\n")


if __name__ == "__main__":
    main()
