#!/usr/bin/env python3
"""Goldens of src/text's tokenizers: ids from `tokenizers` and `sentencepiece`.

Usage: tokenizers_golden.py OUT DATA [MODELS]
OUT: tests/golden/tokenizers. DATA: folder of wikitext2-test.txt and tinyshakespeare.txt. MODELS: folder of the GGUF files; without
it real.json is left as it is. Writes corpus.txt, components.json, trained vocabularies and golden.json: for each tokenizer and
text the number of ids and the sha256 of the ids as little-endian int32, and whole ids for small texts.
WikiText's "<unk>" becomes "UNK": sentencepiece and GGUF vocabularies differ on what that spelling means.
"""
import hashlib, json, os, struct, sys, tempfile

import sentencepiece as spm
import tokenizers as tk
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tokenizers_corpus import SMALL, corpus, long_word

OUT, DATA = sys.argv[1], sys.argv[2]
MODELS = sys.argv[3] if len(sys.argv) > 3 else None


def read(name):
    return open(os.path.join(DATA, name), encoding="utf8", newline="").read()


TEXTS = {"corpus": corpus(), "long_word": long_word(), "wikitext2": read("wikitext2-test.txt").replace("<unk>", "UNK"),
         "shakespeare": read("tinyshakespeare.txt")}
TRAIN = [TEXTS["corpus"], TEXTS["shakespeare"], TEXTS["wikitext2"][:500_000]]


def golden(encode):
    """encode: text -> ids without specials."""
    out = {"texts": {}, "small": [encode(t) for t in SMALL]}
    for name, text in TEXTS.items():
        ids = encode(text)
        digest = hashlib.sha256(struct.pack("<%di" % len(ids), *ids)).hexdigest()
        out["texts"][name] = {"count": len(ids), "sha256": digest}
        print("  ", name, len(ids), flush=True)
    return out


def save(name, value, **kw):
    with open(os.path.join(OUT, name), "w", encoding="utf8") as f:
        json.dump(value, f, ensure_ascii=True, **(kw or {"separators": (",", ":")}))
        f.write("\n")


def hf(tokenizer):
    return lambda t: tokenizer.encode(t, add_special_tokens=False).ids


def train_byte_level():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(TRAIN, trainers.BpeTrainer(vocab_size=8000, special_tokens=["<|endoftext|>"], show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def train_word_level():
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    t.train_from_iterator(TRAIN, trainers.WordLevelTrainer(vocab_size=8000, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return t


def train_sentencepiece(**options):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "train.txt")
        with open(path, "w", encoding="utf8") as f:
            for text in TRAIN:
                for line in text.replace("\x00", " ").split("\n"):
                    f.write(line[:4000] + "\n")
        spm.SentencePieceTrainer.train(input=path, model_prefix=os.path.join(d, "m"), vocab_size=8000, num_threads=2, minloglevel=2,
                                       character_coverage=0.9995, **options)
        return open(os.path.join(d, "m.model"), "rb").read()


def proto(data):
    from sentencepiece import sentencepiece_model_pb2 as pb
    m = pb.ModelProto()
    m.ParseFromString(data)
    return m


def save_pieces(name, m):
    """One line a piece: kind (GGUF's number), score as the shortest text of its float, the piece as JSON."""
    with open(os.path.join(OUT, name), "w", encoding="utf8") as f:
        for p in m.pieces:
            f.write("%d %.9g %s\n" % (p.type, p.score, json.dumps(p.piece, ensure_ascii=False)))


def unigram_json(m):
    """The tokenizer.json that transformers makes of a T5 model, without the charsmap (charsmap.bin)."""
    t = Tokenizer(models.Unigram([(p.piece, float(p.score)) for p in m.pieces], unk_id=2, byte_fallback=False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(m.normalizer_spec.precompiled_charsmap),
                                         normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    return t


COMPONENT_TEXTS = ["Hello,  World!", " caf\u00e9 cafe\u0301 İI ß ΣΑΣ ", "a\u180eb\u00a0c\u3000", "12 345x6", "漢字 and ｶﾀ ﬁ Å", "x--y..z", "\x00\x01tab\tnl\n\r", "", " ",
                   "▁a ▁▁b", "don't I'LL", "a  b   c", "👨‍👩‍👧 👍🏽", "\u0928\u093f e\u0301\u0323", "$5 + 3^2 = `q` ~ <s>"]
NORMALIZERS = [
    {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"},
    {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}, {"type": "Replace", "pattern": {"Regex": "\\s"}, "content": "_"},
    {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]},
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False},
]
SPLITS = [{"type": "Split", "pattern": p, "behavior": b, "invert": i} for p in ({"String": " "}, {"Regex": "[0-9]|\\s"}) for i in (False, True)
          for b in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")]
PRE_TOKENIZERS = SPLITS + [
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": False},
    {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}, {"type": "Digits", "individual_digits": True},
    {"type": "Digits", "individual_digits": False}, {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Punctuation", "behavior": "MergedWithPrevious"},
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]},
    {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True},
                                           {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
]
# Patterns of public tokenizers, the last three without a hand-written splitter.
for regex in (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
              r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
              r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
              r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+"):
    PRE_TOKENIZERS.append({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False})
DECODERS = [
    ({"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, ["Hello", "Ġworld", "Ċ", "Ã©"]),
    ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}, ["▁Hello", "▁wor", "ld"]),
    ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}, ["▁Hello", "▁wor", "ld"]),
    ({"type": "WordPiece", "prefix": "##", "cleanup": True}, ["hello", "wor", "##ld", "!", "don", "'", "t"]),
    ({"type": "WordPiece", "prefix": "##", "cleanup": False}, ["hello", "wor", "##ld", "!"]),
    ({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                       {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}, ["▁Hi", "▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "▁x"]),
]


def with_component(key, spec):
    return Tokenizer.from_str(json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                                          "pre_tokenizer": None, "post_processor": None, "decoder": None,
                                          "model": {"type": "WordLevel", "vocab": {"u": 0}, "unk_token": "u"}, key: spec}))


def components():
    out = {"normalizer": [], "pre_tokenizer": [], "decoder": []}
    for spec in NORMALIZERS:
        n = with_component("normalizer", spec).normalizer
        out["normalizer"].append({"spec": spec, "cases": [[t, n.normalize_str(t)] for t in COMPONENT_TEXTS]})
    for spec in PRE_TOKENIZERS:
        p = with_component("pre_tokenizer", spec).pre_tokenizer
        out["pre_tokenizer"].append({"spec": spec, "cases": [[t, [w for w, _ in p.pre_tokenize_str(t)]] for t in COMPONENT_TEXTS if t]})
    for spec, pieces in DECODERS:
        out["decoder"].append({"spec": spec, "cases": [[pieces, with_component("decoder", spec).decoder.decode(pieces)]]})
    return out


def gguf_reference(path):
    """Encoders for the vocabulary of a GGUF file."""
    from gguf import GGUFReader
    fields = GGUFReader(path).fields
    get = lambda k: fields["tokenizer.ggml." + k].contents()
    pieces = get("tokens")
    if get("model") == "llama":
        from sentencepiece import sentencepiece_model_pb2 as pb
        m = pb.ModelProto()
        m.trainer_spec.model_type, m.trainer_spec.byte_fallback = 2, True
        m.trainer_spec.unk_id, m.trainer_spec.bos_id, m.trainer_spec.eos_id, m.trainer_spec.pad_id = 3, 2, 1, 0
        m.normalizer_spec.name, m.normalizer_spec.add_dummy_prefix, m.normalizer_spec.remove_extra_whitespaces = "identity", False, False
        for piece, score, kind in zip(pieces, get("scores"), get("token_type")):
            if kind == 4:
                piece = piece.replace(" ", "▁")
            if piece == "<unk>":
                kind = 2
            m.pieces.add(piece=piece, score=score, type=kind)
        sp = spm.SentencePieceProcessor(model_proto=m.SerializeToString())
        return lambda t: sp.encode(t)
    merges = [tuple(x.split(" ", 1)) for x in get("merges")]
    t = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=merges))
    if get("pre") == "smollm":
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    else:
        assert get("pre") == "qwen2"
        pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return hf(t)


def main():
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "corpus.txt"), "w", encoding="utf8", newline="") as f:
        f.write(TEXTS["corpus"])
    save("components.json", components())
    results = {"small_texts": SMALL, "versions": {"tokenizers": tk.__version__, "sentencepiece": spm.__version__}}
    print("byte_level")
    t = train_byte_level()
    save("byte_level.json", json.loads(t.to_str()))
    results["byte_level"] = golden(hf(t))
    print("word_level")
    t = train_word_level()
    save("word_level.json", json.loads(t.to_str()))
    results["word_level"] = golden(hf(t))
    print("score_bpe")
    data = train_sentencepiece(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                               split_digits=True, user_defined_symbols=["<tool>"], max_sentence_length=8192)
    save_pieces("score_bpe.txt", proto(data))
    sp = spm.SentencePieceProcessor(model_proto=data)
    results["score_bpe"] = golden(lambda x: sp.encode(x))
    print("unigram")
    data = train_sentencepiece(model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, max_sentence_length=8192)
    m = proto(data)
    save_pieces("unigram.txt", m)
    with open(os.path.join(OUT, "charsmap.bin"), "wb") as f:
        f.write(m.normalizer_spec.precompiled_charsmap)
    sp2 = spm.SentencePieceProcessor(model_proto=data)
    results["unigram"] = golden(lambda x: sp2.encode(x))
    results["unigram_json"] = golden(hf(unigram_json(m)))
    # sentencepiece adds scores in float32, whose spacing is 0.5 at the end of a 1 MB word; `tokenizers` and llama.cpp use float64.
    results["unigram"]["texts"]["long_word"] = results["unigram_json"]["texts"]["long_word"]
    save("golden.json", results)
    if MODELS:
        real = {}
        for name, file in (("smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf"), ("gemma3-270m", "gemma-3-270m-q4_k_m.gguf"),
                           ("qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")):
            print(name)
            real[name] = {"file": file, **golden(gguf_reference(os.path.join(MODELS, file)))}
        save("real.json", real)


main()
