#!/usr/bin/env python3
"""Seeds of the fuzz target gguf_model: the smallest whole GGUF files, written by the gguf package.

    fuzz_models.py [FOLDER]      (default tests/fuzz/corpus/gguf_model)

One layer, width 8, zeros for weights; every architecture once and every tokenizer model once.
"""
import pathlib
import sys

import gguf
import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WIDTH, MLP, HEADS, KV_HEADS, CONTEXT = 8, 8, 2, 1, 16

# Pieces, types (1 normal, 2 unknown, 3 control, 4 user defined, 6 byte) and what each model needs besides.
BYTE_LEVEL = (["a", "b", "\u0120", "1", "2", "\u0120a", "<s>", "it"], [1, 1, 1, 1, 1, 1, 3, 4])
SCORED = (["<unk>", "<s>", "</s>", "<0x41>", "\u2581", "a", "\u2581a", "b"], [2, 3, 3, 6, 1, 1, 1, 1])


def add_vocabulary(writer, model):
    writer.add_tokenizer_model(model)
    pieces, types = BYTE_LEVEL if model == "gpt2" else SCORED
    writer.add_token_list(pieces)
    writer.add_token_types(types)
    if model == "gpt2":
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_merges(["\u0120 a"])
        writer.add_bos_token_id(6)
    else:
        writer.add_token_scores([-float(i) for i in range(len(pieces))])
        writer.add_unk_token_id(0)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_add_space_prefix(True)
    return len(pieces)


def write_model(path, architecture, tokenizer, extra=()):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    kv_heads = HEADS if architecture == "gpt2" else KV_HEADS
    writer.add_head_count_kv(kv_heads)
    if architecture == "gpt2":
        writer.add_layer_norm_eps(1e-5)
    else:
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_freq_base(10000.0)
    for key, value in extra:
        key = f"{architecture}.{key}"
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)
    vocabulary = add_vocabulary(writer, tokenizer)

    def tensor(name, *shape):
        writer.add_tensor(name, numpy.zeros(shape, dtype=numpy.float32))

    head = WIDTH // HEADS
    tensor("token_embd.weight", vocabulary, WIDTH)
    layer_norm = architecture == "gpt2"
    norms = [("blk.0.attn_norm", WIDTH), ("blk.0.ffn_norm", WIDTH), ("output_norm", WIDTH)]
    if architecture in ("qwen3", "gemma3"):
        norms += [("blk.0.attn_q_norm", head), ("blk.0.attn_k_norm", head)]
    if architecture == "gemma3":
        norms += [("blk.0.post_attention_norm", WIDTH), ("blk.0.post_ffw_norm", WIDTH)]
    for name, width in norms:
        tensor(f"{name}.weight", width)
        if layer_norm:
            tensor(f"{name}.bias", width)
    linears = [("attn_output", WIDTH, WIDTH), ("ffn_up", MLP, WIDTH), ("ffn_down", WIDTH, MLP)]
    if architecture == "gpt2":
        linears.append(("attn_qkv", 3 * WIDTH, WIDTH))
        tensor("position_embd.weight", CONTEXT, WIDTH)
    else:
        linears += [("attn_q", WIDTH, WIDTH), ("attn_k", kv_heads * head, WIDTH), ("attn_v", kv_heads * head, WIDTH),
                    ("ffn_gate", MLP, WIDTH)]
    for name, out, inner in linears:
        tensor(f"blk.0.{name}.weight", out, inner)
        if layer_norm or (architecture == "qwen2" and name in ("attn_q", "attn_k", "attn_v")):
            tensor(f"blk.0.{name}.bias", out)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder / "llama", "llama", "llama")
    write_model(folder / "llama-yarn", "llama", "t5",
                [("rope.scaling.type", "yarn"), ("rope.scaling.factor", 4.0),
                 ("rope.scaling.original_context_length", 8), ("rope.dimension_count", 4)])
    write_model(folder / "llama-linear", "llama", "gpt2", [("rope.scaling.type", "linear"), ("rope.scaling.factor", 2.0)])
    write_model(folder / "gpt2", "gpt2", "gpt2")
    write_model(folder / "qwen2", "qwen2", "gpt2")
    write_model(folder / "qwen3", "qwen3", "gpt2")
    write_model(folder / "gemma3", "gemma3", "llama",
                [("attention.sliding_window", 4), ("attention.key_length", 4), ("attention.value_length", 4)])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "fuzz" / "corpus" / "gguf_model")
