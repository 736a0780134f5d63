#!/usr/bin/env python3
"""Goldens of the block formats: tests/golden/formats/<TYPE>.{bin,f32}.

Random block bytes with sane scales (the f16 fields of every block are replaced by numbers of both
signs, a zero and a denormal among them), decoded by the `gguf` Python package
(gguf.quants.dequantize). <TYPE>.bin holds the blocks, <TYPE>.f32 the decoded little-endian floats.
half.bin: float32 inputs, then their f16 and bf16 encodings by numpy and gguf.

Run with an interpreter that has numpy and gguf:  python tools/oracle/formats.py
"""
import json
import pathlib
from importlib.metadata import version

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "formats"
SEED = 20240611
BLOCKS = {32: 24, 256: 6}
# byte offsets of the f16 fields in a block
HALVES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.IQ4_NL: [0], T.IQ4_XS: [0],
}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    for kind, fields in HALVES.items():
        elements, size = GGML_QUANT_SIZES[kind]
        n = BLOCKS[elements]
        blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
        for at in fields:
            scales = (rng.standard_normal(n) * 0.02).astype(np.float16)
            scales[1], scales[2] = 0.0, 3e-7  # zero; a denormal of f16
            blocks[:, at:at + 2] = scales.view(np.uint8).reshape(n, 2)
        values = dequantize(blocks, kind).astype(np.float32).ravel()
        assert np.isfinite(values).all() and values.size == n * elements
        (OUT / f"{kind.name}.bin").write_bytes(blocks.tobytes())
        (OUT / f"{kind.name}.f32").write_bytes(values.tobytes())

    # Encodings: random bit patterns and the neighbourhoods of every rounding border.
    bits = rng.integers(0, 2**32, 1500, dtype=np.uint64).astype(np.uint32)
    halves = rng.integers(0, 0x7C00, 400, dtype=np.uint32).astype(np.uint16).view(np.float16)
    middle = ((halves.astype(np.float64) + np.nextafter(halves, np.float16(np.inf)).astype(np.float64)) / 2)
    around = middle[np.isfinite(middle)].astype(np.float32).view(np.uint32)
    special = np.array([0, 0x80000000, 1, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x477FEFFF, 0x477FF000, 0x33000000,
                        0x33000001, 0x387FFFFF, 0x38800000, 0x387FE000, 0x387FF000], np.uint32)
    bits = np.concatenate([bits, around - 1, around, around + 1, special])
    values = bits.view(np.float32)
    values = values[~np.isnan(values)]  # NaN payloads are tested by hand
    with np.errstate(over="ignore"):
        f16 = values.astype(np.float16).view(np.uint16)
    bf16 = quantize(values.reshape(1, -1), T.BF16).view(np.uint16).ravel()
    (OUT / "half.bin").write_bytes(values.tobytes() + f16.tobytes() + bf16.tobytes())
    (OUT / "provenance.json").write_text(json.dumps({
        "script": "tools/oracle/formats.py", "seed": SEED, "gguf": version("gguf"), "numpy": version("numpy")}, indent=1) + "\n")


main()
