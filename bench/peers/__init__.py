"""Programs that bench/compare runs beside strata. None is ever linked into strata.

A peer is a module with NAME, KINDS (of works it can do), HOW (to install it), `missing(options)` (why it cannot run
here; None: it can) and `measure(options, work)`: one value in the work's unit from a process of its own.
"""
from . import gpt2_straight, llama_cpp, one_dnn, openblas, openvino_llm, pytorch

PEERS = {peer.NAME: peer for peer in (llama_cpp, openvino_llm, pytorch, openblas, one_dnn, gpt2_straight)}
