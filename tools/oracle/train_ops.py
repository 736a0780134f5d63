#!/usr/bin/env python3
"""Goldens of the training ops: tests/golden/train_ops/<case>.f64.

PyTorch in float64 on inputs that the tests make by the same generator (kernels/guarded_for_test.h).
Each file holds the results of one case, one after the other, as little-endian doubles;
provenance.json says which.

Run with an interpreter that has torch and numpy:  python tools/oracle/train_ops.py
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "train_ops"


def values(shape, seed, size=1.0, grad=True):
    """test_values() of kernels/guarded_for_test.h."""
    n = int(np.prod(shape))
    state = (seed * 2654435761 + 12345) & 0xFFFFFFFF
    out = np.empty(n, np.float32)
    for i in range(n):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = (np.float32(state >> 8) / np.float32(8388608) - np.float32(1)) * np.float32(size)
    return torch.from_numpy(out.astype(np.float64)).reshape(shape).requires_grad_(grad)


def norms():
    x, w, b, d_y = values((70, 33), 1, 3), values((33,), 2, 2), values((33,), 3), values((70, 33), 4)
    y = F.rms_norm(x, (33,), w, 1e-5)
    rms = torch.autograd.grad(y, (x, w), d_y)
    z = F.layer_norm(x, (33,), w, b, 1e-5)
    layer = torch.autograd.grad(z, (x, w, b), d_y)
    return {"rms_y": y, "rms_d_x": rms[0], "rms_d_w": rms[1], "layer_y": z, "layer_d_x": layer[0],
            "layer_d_w": layer[1], "layer_d_b": layer[2]}


def activations():
    x, up, d_y = values((3, 41), 5, 5), values((3, 41), 6), values((3, 41), 7)
    out = {}
    for name, f in {"silu": F.silu, "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"), "gelu_erf": F.gelu,
                    "relu": F.relu}.items():
        out[f"{name}_d_x"], = torch.autograd.grad(f(x), (x,), d_y)
        y = f(x) * up
        out[f"{name}_gated"] = y
        out[f"{name}_d_gate"], out[f"{name}_d_up"] = torch.autograd.grad(y, (x, up), d_y)
    y = torch.softmax(x, -1)
    out["softmax_d_x"], = torch.autograd.grad(y, (x,), d_y)
    return out


def cross_entropy():
    x, w = values((9, 12), 8, 2), values((50, 12), 9)
    targets = torch.tensor([3, 49, -100, 0, 7, 7, -100, 21, 30])
    loss = F.cross_entropy(x @ w.T, targets, ignore_index=-100, label_smoothing=0.1, reduction="sum")
    d_x, d_w = torch.autograd.grad(loss / 7, (x, w))
    return {"loss": loss.reshape(1), "d_x": d_x, "d_w": d_w}


def matching():
    """Rows 2 and 6 take no part; temperature 2."""
    x, target = values((9, 50), 14, 3), values((9, 50), 15, 2, grad=False)
    counts = [0, 1, 3, 4, 5, 7, 8]
    out = {}
    for name, f in {"squared_error": F.mse_loss,
                    "cosine": lambda a, b: F.cosine_embedding_loss(a, b, torch.ones(len(a), dtype=a.dtype)),
                    "kl": lambda a, b: F.kl_div(F.log_softmax(a / 2, -1), F.softmax(b / 2, -1), reduction="batchmean")}.items():
        loss = f(x[counts], target[counts])
        out[name] = loss.reshape(1)
        out[f"{name}_d_x"], = torch.autograd.grad(loss, (x,))
    out["cosine_of_all"] = (1 - F.cosine_similarity(x, target)).mean().reshape(1)
    return out


def adamw():
    p = torch.nn.Parameter(values((37,), 10).detach().clone())
    optimizer = torch.optim.AdamW([p], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for step in range(5):
        p.grad = values((37,), 20 + step, grad=False).clone() * 0.5
        optimizer.step()
    state = optimizer.state[p]
    return {"p": p, "m": state["exp_avg"], "v": state["exp_avg_sq"]}


def attention():
    """Causal, 4 query heads over 2 key-value heads of 16, a window of 20 of 50 positions, scale 0.3."""
    q, k, v, d_y = values((50, 64), 1, 1.5), values((50, 32), 2, 1.5), values((50, 32), 3, 2), values((50, 64), 4)
    heads = [t.reshape(50, -1, 16).transpose(0, 1) for t in (q, k, v)]
    i, t = torch.arange(50)[:, None], torch.arange(50)[None]
    y = F.scaled_dot_product_attention(*heads, attn_mask=(t <= i) & (t > i - 20), scale=float(np.float32(0.3)),
                                       enable_gqa=True)
    y = y.transpose(0, 1).reshape(50, 64)
    d_q, d_k, d_v = torch.autograd.grad(y, (q, k, v), d_y)
    return {"y": y, "d_q": d_q, "d_k": d_k, "d_v": d_v}


def custom_heads():
    """The reading of src/train/tape_ops_test.cpp."""
    shapes = {"embedding": (7, 8), "frozen": (8, 8), "down": (3, 8), "up": (8, 3), "factors": (8,), "head": (7, 8)}
    w = {name: values(shape, 40 + i, 0.8, grad=name != "frozen") for i, (name, shape) in enumerate(shapes.items())}
    squares, gates, teacher = (values(shape, 50 + i, 2, grad=False) for i, shape in enumerate([(3, 8), (5, 4), (5, 7)]))
    targets = torch.tensor([2, 6, -100, 0, 5])
    scored = targets != -100
    x = w["embedding"][[3, 0, 6, 3, 1]]
    z = (x @ w["frozen"].T + 0.5 * x @ w["down"].T @ w["up"].T) * w["factors"]
    logits = z @ w["head"].T
    losses = {
        "cross_entropy": F.cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.1, reduction="sum"),
        "squared_error": F.mse_loss(z[1:4], squares) * 3,
        "cosine": (1 - F.cosine_similarity(z[:, :4] * z[:, 4:], gates))[scored].sum(),
        "kl": F.kl_div(F.log_softmax(logits[scored] / 2, -1), F.log_softmax(teacher[scored] / 2, -1), log_target=True, reduction="sum")}
    total = (losses["cross_entropy"] + losses["squared_error"] + 0.5 * losses["cosine"] + 0.7 * losses["kl"]) / 4
    learnt = [name for name in shapes if name != "frozen"]
    gradients = torch.autograd.grad(total, [w[name] for name in learnt])
    return {**{name: loss.reshape(1) for name, loss in losses.items()}, **{f"d_{n}": g for n, g in zip(learnt, gradients)}}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    cases = {}
    for case in (norms, activations, cross_entropy, matching, adamw, attention, custom_heads):
        results = case()
        data = [np.ascontiguousarray(r.detach().numpy(), "<f8").ravel() for r in results.values()]
        (OUT / f"{case.__name__}.f64").write_bytes(np.concatenate(data).tobytes())
        cases[case.__name__] = {name: list(r.shape) for name, r in results.items()}
    (OUT / "provenance.json").write_text(json.dumps(
        {"script": "tools/oracle/train_ops.py", "torch": torch.__version__.split("+")[0], "numpy": np.__version__,
         "dtype": "float64", "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
