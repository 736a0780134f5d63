"""OpenBLAS's sgemm, through the copy inside NumPy's wheels."""
import sys

NAME = "openblas"
KINDS = {"matmul"}
HOW = "pip install numpy (its wheels contain OpenBLAS), then --peer-python PYTHON"

if __name__ == "__main__":
    from python_peer import answer, product_flops, seconds_of
else:
    from .python_peer import missing_package, run

BLAS = "numpy.show_config(mode='dicts')['Build Dependencies']['blas']['name']"


def missing(options):
    return missing_package(options, f"numpy; assert 'openblas' in {BLAS}, 'numpy was built with ' + {BLAS}")


def measure(options, work):
    return run(options, __file__, work)


def rate(sizes):
    import numpy
    draw = numpy.random.default_rng(1).standard_normal
    rows, out, width = sizes["rows"], sizes["out"], sizes["in"]
    x, y, w = (draw(shape, dtype=numpy.float32) for shape in ((rows, width), (rows, out), (out, width)))
    a, b, c = {"nt": (x, w.T, y), "nn": (y, w, x), "tn": (y.T, x, w)}[sizes["product"]]
    result = numpy.empty_like(c)
    return 1e-9 * product_flops(sizes) / seconds_of(lambda: numpy.matmul(a, b, out=result))


if __name__ == "__main__":
    sys.exit(answer(rate))
