"""oneDNN's f32 inner product, through the copy inside PyTorch's wheels, weights reordered beforehand."""
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
    x, w = torch.randn(sizes["rows"], sizes["in"]), torch.randn(sizes["out"], sizes["in"])
    with torch.inference_mode():
        packed = torch.ops.mkldnn._reorder_linear_weight(w, sizes["rows"])
        seconds = seconds_of(lambda: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], ""))
    return 1e-9 * product_flops(sizes) / seconds


if __name__ == "__main__":
    sys.exit(answer(rate))
