"""PyTorch: scaled dot product attention, and torch.nn.functional.linear (MKL or OpenBLAS, as it was built)."""
import sys

NAME = "pytorch"
KINDS = {"attention", "matmul"}
HOW = "pip install torch (the CPU wheel of PyPI or download.pytorch.org), then --peer-python PYTHON"

if __name__ == "__main__":
    from python_peer import answer, product_flops, seconds_of
else:
    from .python_peer import missing_package, run


def missing(options):
    return missing_package(options, "torch")


def measure(options, work):
    return run(options, __file__, work)


def rate(sizes):
    """GFLOP/s. Attention: 2 T T D H, the causal half of all products, as strata counts."""
    import torch
    torch.set_num_threads(sizes["threads"])
    torch.manual_seed(1)
    with torch.inference_mode():
        if sizes["kind"] == "attention":
            heads, length, width = sizes["heads"], sizes["context"], sizes["head_size"]
            q, k, v = (torch.randn(1, heads, length, width) for _ in range(3))
            seconds = seconds_of(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
            return 2e-9 * length * length * width * heads / seconds
        x, w = torch.randn(sizes["rows"], sizes["in"]), torch.randn(sizes["out"], sizes["in"])
        return 1e-9 * product_flops(sizes) / seconds_of(lambda: torch.nn.functional.linear(x, w))


if __name__ == "__main__":
    sys.exit(answer(rate))
