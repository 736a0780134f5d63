"""A Hugging Face tokenizer folder made from a GGUF file, for clients that want one and no network.

    make_tokenizer_folder.py MODEL.gguf FOLDER

Writes tokenizer.json, tokenizer_config.json and config.json. Only for byte-level BPE with the pre-tokenizer
`smollm` (digits one by one, then GPT-2's expression): it serves the tests on the default model, and a wrong
pre-tokenizer would count tokens wrongly without a word.
"""
import json
import pathlib
import struct
import sys

# GGUF metadata value types (the format's specification) as struct formats; 8 is a string, 9 an array.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
CONTROL, USER_DEFINED = 3, 4  # tokenizer.ggml.token_type


class Reader:
    """Reads little-endian GGUF values one after another."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def scalar(self, code):
        value, = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self):
        size = self.scalar("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode("utf-8", errors="replace")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            item, count = self.scalar("I"), self.scalar("Q")
            return [self.value(item) for _ in range(count)]
        return self.scalar(SCALARS[kind])


def read_metadata(path):
    """The key-value pairs of a GGUF file's header."""
    with open(path, "rb") as file:
        reader = Reader(file.read(64 << 20))  # vocabularies are a few MB; tensors follow
    if reader.scalar("I") != 0x46554747:  # "GGUF"
        sys.exit(f"{path}: not a GGUF file")
    reader.scalar("I")  # version
    reader.scalar("Q")  # tensors
    pairs = {}
    for _ in range(reader.scalar("Q")):
        key = reader.string()
        pairs[key] = reader.value(reader.scalar("I"))
    return pairs


def tokenizer_json(metadata):
    tokens = metadata["tokenizer.ggml.tokens"]
    special = [(i, kind == CONTROL) for i, kind in enumerate(metadata["tokenizer.ggml.token_type"])
               if kind in (CONTROL, USER_DEFINED)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
        "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": control} for i, control in special],
        "pre_tokenizer": {"type": "Sequence",
                          "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)},
                  "merges": metadata["tokenizer.ggml.merges"]},
    }


def main(model, folder):
    metadata = read_metadata(model)
    pre_tokenizer = metadata.get("tokenizer.ggml.pre")
    if metadata["tokenizer.ggml.model"] != "gpt2" or pre_tokenizer != "smollm":
        sys.exit(f"{model}: wanted byte-level BPE with the pre-tokenizer smollm, got "
                 f"{metadata['tokenizer.ggml.model']} with {pre_tokenizer}")
    tokens = metadata["tokenizer.ggml.tokens"]
    end = tokens[metadata["tokenizer.ggml.eos_token_id"]]
    files = {
        "tokenizer.json": tokenizer_json(metadata),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": metadata["llama.context_length"],
            "bos_token": tokens[metadata["tokenizer.ggml.bos_token_id"]], "eos_token": end, "pad_token": end,
            "clean_up_tokenization_spaces": False, "chat_template": metadata["tokenizer.chat_template"]},
        "config.json": {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": len(tokens),
            "max_position_embeddings": metadata["llama.context_length"]},
    }
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
