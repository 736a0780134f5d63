"""Llama models of any size for tests that look at memory or time, not at answers: weights repeat a few random rows."""
import random
import struct

U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
TYPE_F32, TYPE_Q8_0 = 0, 8
ALIGNMENT = 32


def _text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _key(name, kind, payload):
    return _text(name) + struct.pack("<I", kind) + payload


def _array(name, kind, count, payload):
    return _key(name, ARRAY, struct.pack("<IQ", kind, count) + payload)


def _tokenizer(vocabulary):
    """A vocabulary as SentencePiece makes them: three special tokens, 256 bytes, then pieces."""
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    pieces += [f"▁word{i}" for i in range(vocabulary - len(pieces))]
    kinds = [2, 3, 3] + [6] * 256
    kinds += [1] * (vocabulary - len(kinds))
    return [
        _key("tokenizer.ggml.model", STRING, _text("llama")),
        _array("tokenizer.ggml.tokens", STRING, vocabulary, b"".join(map(_text, pieces))),
        _array("tokenizer.ggml.scores", F32, vocabulary, struct.pack(f"<{vocabulary}f", *(-float(i) for i in range(vocabulary)))),
        _array("tokenizer.ggml.token_type", I32, vocabulary, struct.pack(f"<{vocabulary}i", *kinds)),
        _key("tokenizer.ggml.bos_token_id", U32, struct.pack("<I", 1)),
        _key("tokenizer.ggml.eos_token_id", U32, struct.pack("<I", 2)),
        _key("tokenizer.ggml.unknown_token_id", U32, struct.pack("<I", 0)),
    ]


def write_llama(path, *, vocabulary, hidden, layers=1, mlp=256, heads=4, context=512):
    """Writes a model with Q8_0 matrices, an output head of its own and `vocabulary` tokens; returns the file's size."""
    random_bytes = random.Random(1).randbytes
    keys = [_key("general.architecture", STRING, _text("llama"))]
    for name, value in (("context_length", context), ("embedding_length", hidden), ("block_count", layers),
                        ("feed_forward_length", mlp), ("attention.head_count", heads), ("attention.head_count_kv", heads)):
        keys.append(_key(f"llama.{name}", U32, struct.pack("<I", value)))
    keys.append(_key("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)))
    keys += _tokenizer(vocabulary)

    vectors = [("output_norm.weight", hidden)]
    matrices = [("token_embd.weight", vocabulary, hidden), ("output.weight", vocabulary, hidden)]
    for i in range(layers):
        vectors += [(f"blk.{i}.attn_norm.weight", hidden), (f"blk.{i}.ffn_norm.weight", hidden)]
        matrices += [(f"blk.{i}.attn_{name}.weight", hidden, hidden) for name in ("q", "k", "v", "output")]
        matrices += [(f"blk.{i}.ffn_gate.weight", mlp, hidden), (f"blk.{i}.ffn_up.weight", mlp, hidden),
                     (f"blk.{i}.ffn_down.weight", hidden, mlp)]

    table, data = [], []
    offset = 0
    for name, rows, columns in [(name, 1, size) for name, size in vectors] + matrices:
        if name.endswith("norm.weight"):
            shape, kind, content = (columns,), TYPE_F32, struct.pack("<f", 1.0) * columns
        else:
            scale = struct.pack("<e", 0.01)
            tile = b"".join(scale + random_bytes(32) for _ in range(16 * columns // 32))
            shape, kind, content = (columns, rows), TYPE_Q8_0, (tile * (rows // 16 + 1))[:rows * columns // 32 * 34]
        table.append(_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
        content += bytes(-len(content) % ALIGNMENT)
        data.append(content)
        offset += len(content)

    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(table), len(keys)) + b"".join(keys) + b"".join(table))
        file.write(bytes(-file.tell() % ALIGNMENT))
        for content in data:
            file.write(content)
        return file.tell()
