"""PyTorch: scaled dot product attention and its gradients, torch.matmul (MKL or OpenBLAS, as it was built), training steps."""
import sys

NAME = "pytorch"
KINDS = {"attention-forward", "attention-backward", "matmul", "train", "train-gpt2"}
HOW = "pip install torch (the CPU wheel of PyPI or download.pytorch.org), then --peer-python PYTHON"

if __name__ == "__main__":
    from python_peer import answer, product_flops, seconds_of
else:
    from .python_peer import missing_package, run


def missing(options):
    return missing_package(options, "torch")


def measure(options, work):
    return run(options, __file__, work)


def train_rate(sizes):
    """Tokens/s of nanoGPT's model and step in eager mode: forward, backward, clipping at 1, AdamW (fused); bf16 by autocast."""
    import time

    import torch
    import torch.nn.functional as F
    from torch import nn
    width, heads = sizes["width"], sizes["heads"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (p.view(b, t, heads, width // heads).transpose(1, 2) for p in self.c_attn(self.ln_1(x)).split(width, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, width)
            x = x + self.c_proj(y)
            return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(sizes["vocabulary"], width), nn.Embedding(sizes["context"], width)
            self.blocks = nn.Sequential(*(Block() for _ in range(sizes["layers"])))
            self.ln_f = nn.LayerNorm(width)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)

        def forward(self, tokens, targets):
            x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
            logits = self.ln_f(self.blocks(x)) @ self.wte.weight.T
            return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))

    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    tokens = torch.randint(0, sizes["vocabulary"], (sizes["batch"], sizes["context"] + 1))
    seconds = []
    for _ in range(4):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=sizes["dtype"] == "bf16"):
            loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    return sizes["batch"] * sizes["context"] / sorted(seconds[1:])[1]


def attention_rate(sizes):
    """GFLOP/s of 2 T T D H forward, the causal half of all products, and 5 T T D H backward, as strata counts."""
    import torch
    heads, length, width = sizes["heads"], sizes["context"], sizes["head_size"]
    backward = sizes["kind"] == "attention-backward"
    q, k, v = (torch.randn(1, heads, length, width, requires_grad=backward) for _ in range(3))

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    if not backward:
        with torch.inference_mode():
            seconds = seconds_of(forward)
    else:
        y = forward()
        d_y = torch.randn_like(y)
        seconds = seconds_of(lambda: torch.autograd.grad(y, (q, k, v), d_y, retain_graph=True))
    return (5e-9 if backward else 2e-9) * length * length * width * heads / seconds


def rate(sizes):
    import torch
    torch.set_num_threads(sizes["threads"])
    torch.manual_seed(1)
    if sizes["kind"].startswith("train"):
        return train_rate(sizes)
    if sizes["kind"] != "matmul":
        return attention_rate(sizes)
    rows, out, width = sizes["rows"], sizes["out"], sizes["in"]
    x, y, w = torch.randn(rows, width), torch.randn(rows, out), torch.randn(out, width)
    a, b, c = {"nt": (x, w.T, y), "nn": (y, w, x), "tn": (y.T, x, w)}[sizes["product"]]
    with torch.inference_mode():
        return 1e-9 * product_flops(sizes) / seconds_of(lambda: torch.matmul(a, b, out=c))


if __name__ == "__main__":
    sys.exit(answer(rate))
