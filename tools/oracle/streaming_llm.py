#!/usr/bin/env python3
"""Logits of StreamingLLM (Xiao et al. 2023, arXiv:2309.17453) as the paper describes it, token by token in float64.

The models are those of tools/oracle/architectures.py. For each token: the keys of the first S and of the last N tokens, stored
before rope, are turned by their place in the cache; so is the query. With S = 0 that is a sliding window.

Writes tests/golden/streaming/cases.json (tokens, positions, cases, provenance) and <case>.f64 [positions, V], little-endian.
"""
import json
import pathlib
import platform

import torch
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests/golden/architectures"
OUT = ROOT / "tests/golden/streaming"
# Before, at and after each case's window and its window with sinks, some windows later, and the end.
POSITIONS = [0, 5, 15, 16, 17, 36, 37, 38, 51, 63, 64, 65, 100, 200, 319]
CASES = [("llama", 0, 17), ("llama", 4, 60), ("llama", 20, 17), ("qwen3", 4, 60), ("qwen3", 70, 30)]


def rms(x, weight, epsilon):
    return weight * x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon)


def turn(x, positions, theta):
    """x [heads, T, Dh]: pair i is (x[i], x[i + Dh / 2])."""
    half = x.shape[-1] // 2
    angle = positions[:, None] * theta ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def logits_of(name, tokens, sinks, window):
    config = json.loads((MODELS / name / "config.json").read_text())
    w = {key: value.double() for key, value in load_file(MODELS / name / "model.safetensors").items()}
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim", config["hidden_size"] // heads)
    epsilon, theta = config["rms_norm_eps"], config["rope_theta"]
    head = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    caches = [[] for _ in range(config["num_hidden_layers"])]  # of (k, v), each [kv_heads, Dh]
    out = []
    for token in tokens:
        x = w["model.embed_tokens.weight"][token]
        for layer, cache in enumerate(caches):
            at = f"model.layers.{layer}."
            h = rms(x, w[at + "input_layernorm.weight"], epsilon)
            q, k, v = (torch.mv(w[at + f"self_attn.{p}_proj.weight"], h).view(-1, size) for p in "qkv")
            if at + "self_attn.q_norm.weight" in w:
                q, k = (rms(t, w[at + f"self_attn.{p}_norm.weight"], epsilon) for t, p in ((q, "q"), (k, "k")))
            cache.append((k, v))
            if len(cache) > sinks + window:
                del cache[sinks]
            place = torch.arange(len(cache)).double()
            keys = turn(torch.stack([key for key, _ in cache], 1), place, theta).repeat_interleave(heads // kv_heads, 0)
            values = torch.stack([value for _, value in cache], 1).repeat_interleave(heads // kv_heads, 0)
            query = turn(q[:, None], place[-1:], theta)
            share = torch.softmax((query * keys).sum(-1) / size ** 0.5, -1)
            x = x + torch.mv(w[at + "self_attn.o_proj.weight"], (share[..., None] * values).sum(1).flatten())
            h = rms(x, w[at + "post_attention_layernorm.weight"], epsilon)
            gate, up = (torch.mv(w[at + f"mlp.{p}_proj.weight"], h) for p in ("gate", "up"))
            x = x + torch.mv(w[at + "mlp.down_proj.weight"], torch.nn.functional.silu(gate) * up)
        out.append(torch.mv(head, rms(x, w["model.norm.weight"], epsilon)))
    return torch.stack(out)


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    tokens = json.loads((MODELS / "cases.json").read_text())["tokens"]
    cases = []
    for model, sinks, window in CASES:
        name = f"{model}_{sinks}_{window}"
        logits_of(model, tokens, sinks, window)[POSITIONS].numpy().astype("<f8").tofile(OUT / f"{name}.f64")
        cases.append({"name": name, "model": model, "sinks": sinks, "window": window})
    provenance = {"script": "tools/oracle/streaming_llm.py", "python": platform.python_version(), "torch": torch.__version__}
    (OUT / "cases.json").write_text(json.dumps({"provenance": provenance, "tokens": tokens, "positions": POSITIONS, "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
