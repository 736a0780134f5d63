"""oneDNN's f32 inner product, through the copy inside PyTorch's wheels.

Operands are transposed beforehand, which PyTorch does apart from oneDNN. Both are new in each step of training, so oneDNN's
own reordering of the right one counts.
"""
import sys

NAME = "onednn"
KINDS = {"matmul"}
HOW = "pip install torch (its CPU wheels contain oneDNN), then --peer-python PYTHON"

if __name__ == "__main__":
    from python_peer import answer, product_flops, seconds_of
else:
    from .python_peer import missing_package, run


def missing(options):
    return missing_package(options, "torch; assert torch.backends.mkldnn.is_available(), 'torch was built without oneDNN'")


def measure(options, work):
    return run(options, __file__, work)


def rate(sizes):
    import torch
    torch.set_num_threads(sizes["threads"])
    torch.manual_seed(1)
    rows, out, width = sizes["rows"], sizes["out"], sizes["in"]
    x, y, w = torch.randn(rows, width), torch.randn(rows, out), torch.randn(out, width)
    left, right = {"nt": (x, w), "nn": (y, w.T), "tn": (y.T, x.T)}[sizes["product"]]     # left times right^T
    left, right = left.contiguous(), right.contiguous()
    with torch.inference_mode():
        seconds = seconds_of(lambda: torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], ""))
    return 1e-9 * product_flops(sizes) / seconds


if __name__ == "__main__":
    sys.exit(answer(rate))
