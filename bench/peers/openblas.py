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
    x = draw((sizes["rows"], sizes["in"]), dtype=numpy.float32)
    w = draw((sizes["out"], sizes["in"]), dtype=numpy.float32)
    y = numpy.empty((sizes["rows"], sizes["out"]), dtype=numpy.float32)
    return 1e-9 * product_flops(sizes) / seconds_of(lambda: numpy.matmul(x, w.T, out=y))


if __name__ == "__main__":
    sys.exit(answer(rate))
