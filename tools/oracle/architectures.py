#!/usr/bin/env python3
"""Small random models of every architecture and the logits transformers computes for them.

Writes tests/golden/architectures/:
  <model>/config.json, model.safetensors   a Hugging Face folder; weights are F16, both signs
  cases.json     tokens, positions whose logits are kept, the cases (model, changes to its
                 config.json), the GGUF name of every tensor by the gguf package, provenance
  <case>.f64     logits [positions, V], little-endian, transformers in float64
  <case>.f32     the same in float32, as transformers ships

transformers casts to float32 in many places (rope frequencies and angles, RMSNorm, softmax). For the
float64 run the names torch.float32 and torch.float are bound to torch.float64 and Tensor.float() to
Tensor.double() after everything is imported, so that each of those casts is one to float64, and the
default dtype is float64. Nothing else is changed; attention is the eager implementation.
"""
import copy
import json
import pathlib
import shutil
import sys
from importlib.metadata import version

import gguf
import torch
import transformers
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/golden/architectures"
SEED = 20241107
VOCABULARY = 64
LENGTH = 320
# Before, at and after the windows (32, 48), the rope scalings' original contexts (64) and the end.
POSITIONS = [0, 1, 7, 31, 32, 33, 48, 63, 64, 150, 256, 319]
EPSILON = 2.0 ** -17  # exact in f32, which is what GGUF has for it

BASE = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    "rms_norm_eps": EPSILON, "hidden_act": "silu", "tie_word_embeddings": False,
    "rope_theta": 500.0, "bos_token_id": 1, "eos_token_id": 2,
}

# config.json as files on the hub have it (rope_theta and rope_scaling at the top level).
MODELS = {
    "llama": {"model_type": "llama", **BASE},
    "llama_bias": {"model_type": "llama", **BASE, "attention_bias": True, "mlp_bias": True,
                   "tie_word_embeddings": True, "num_key_value_heads": 4, "head_dim": 12},
    "mistral": {"model_type": "mistral", **BASE, "sliding_window": 48, "head_dim": 8},
    "qwen2": {"model_type": "qwen2", **BASE, "tie_word_embeddings": True,
              "use_sliding_window": False, "sliding_window": 48, "max_window_layers": 1},
    "qwen3": {"model_type": "qwen3", **BASE, "head_dim": 16, "attention_bias": False},
    "gemma3": {
        "model_type": "gemma3_text", **BASE, "intermediate_size": 32, "num_hidden_layers": 7,
        "num_key_value_heads": 1, "head_dim": 16, "tie_word_embeddings": True,
        "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16,
        "rope_theta": 5000.0, "rope_local_base_freq": 300.0, "sliding_window": 32,
        "sliding_window_pattern": 6, "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
    },
    "gpt2": {
        "model_type": "gpt2", "vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4,
        "n_positions": 320, "n_inner": None, "activation_function": "gelu_new",
        "layer_norm_epsilon": EPSILON, "bos_token_id": 1, "eos_token_id": 2,
        "tie_word_embeddings": True,
    },
}
del MODELS["gemma3"]["hidden_act"]

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
# case: model, changes to its config
CASES = {
    "llama": ("llama", {}),
    "llama_linear": ("llama", {"rope_scaling": {"type": "linear", "factor": 4.0}}),
    "llama_llama3": ("llama", {"rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}}),
    "llama_yarn": ("llama", {"rope_scaling": YARN}),
    "llama_yarn_options": ("llama", {"rope_scaling": {
        **YARN, "beta_fast": 4.0, "beta_slow": 0.5, "truncate": False, "attention_factor": 1.25}}),
    "llama_theta": ("llama", {"rope_theta": 10000.0}),
    "llama_bias": ("llama_bias", {}),
    "mistral": ("mistral", {}),
    "mistral_full": ("mistral", {"sliding_window": None}),
    "qwen2": ("qwen2", {}),
    "qwen2_window": ("qwen2", {"use_sliding_window": True}),
    "qwen3": ("qwen3", {}),
    "gemma3": ("gemma3", {}),
    "gemma3_scaling": ("gemma3", {"rope_scaling": {"rope_type": "linear", "factor": 8.0},
                                  "query_pre_attn_scalar": 24}),
    "gpt2": ("gpt2", {}),
    "gpt2_inverse_layer": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
}


def build(config):
    """A model from a config.json dictionary, through the class transformers takes for it."""
    values = copy.deepcopy(config)
    cls = type(transformers.AutoConfig.for_model(values.pop("model_type")))
    cfg = cls.from_dict(values)
    cfg._attn_implementation = "eager"
    return transformers.AutoModelForCausalLM.from_config(cfg, attn_implementation="eager").eval()


def random_weights(model, config, generator):
    """Weights of both signs, large enough that attention is far from uniform."""
    weights = {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        r = torch.randn(value.shape, generator=generator, dtype=torch.float32)
        if "norm" in name or ".ln_" in name:
            if name.endswith("bias"):
                w = 0.3 * r
            else:  # Gemma's files hold weight - 1
                w = 0.4 * r + (0.0 if config["model_type"] == "gemma3_text" else 1.0)
        elif name.endswith("bias"):
            # Qwen's key biases are large in a few places.
            w = 0.5 * r * (1 + 6 * (torch.arange(r.numel()) % 7 == 3)) if "k_proj" in name else 0.5 * r
        elif "embed" in name or "wte" in name or "wpe" in name or "lm_head" in name:
            w = (0.7 if "embed" in name or "wte" in name or "wpe" in name else 0.5) * r
        else:
            fan_in = value.shape[0] if config["model_type"] == "gpt2" else value.shape[1]
            gain = 1.6 if any(k in name for k in ("q_proj", "k_proj", "c_attn")) else 1.1
            w = gain / fan_in ** 0.5 * r
        weights[name] = w.to(torch.float16)
    return weights


def logits(config, weights, tokens, dtype):
    model = build(config).to(dtype)
    missing, unexpected = model.load_state_dict({k: v.to(dtype) for k, v in weights.items()},
                                                strict=False)
    tied = config["tie_word_embeddings"]
    assert not unexpected and [m for m in missing if not (tied and m == "lm_head.weight")] == []
    model.tie_weights()
    for name, buffer in model.named_buffers():
        assert not buffer.is_floating_point() or buffer.dtype == dtype, (name, buffer.dtype)
    out = model(torch.tensor([tokens]), use_cache=False).logits[0, POSITIONS]
    assert out.dtype == dtype, out.dtype
    return out


GGUF_ARCHITECTURE = {"llama": "LLAMA", "mistral": "LLAMA", "qwen2": "QWEN2", "qwen3": "QWEN3",
                     "gemma3_text": "GEMMA3", "gpt2": "GPT2"}


def gguf_names(config, weights):
    arch = gguf.MODEL_ARCH[GGUF_ARCHITECTURE[config["model_type"]]]
    layers = config.get("num_hidden_layers", config.get("n_layer"))
    names = gguf.get_tensor_name_map(arch, layers)
    return {name: names.get_name(name, try_suffixes=(".weight", ".bias")) for name in weights}


def write_folder(name, config, weights):
    folder = OUT / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def main():
    torch.set_grad_enabled(False)
    generator = torch.Generator().manual_seed(SEED)
    tokens = torch.randint(0, VOCABULARY, (LENGTH,), generator=generator).tolist()
    shutil.rmtree(OUT, ignore_errors=True)

    weights = {}
    for name, config in MODELS.items():
        weights[name] = random_weights(build(config), config, generator)
        write_folder(name, config, weights[name])

    def run(dtype):
        return {case: logits({**MODELS[model], **changes}, weights[model], tokens, dtype)
                for case, (model, changes) in CASES.items()}

    single = run(torch.float32)
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    double = run(torch.float64)

    for case in CASES:
        (OUT / f"{case}.f64").write_bytes(double[case].contiguous().numpy().astype("<f8").tobytes())
        (OUT / f"{case}.f32").write_bytes(single[case].contiguous().numpy().astype("<f4").tobytes())
        spread = (double[case] - single[case].to(torch.float64)).abs().max() / double[case].abs().max()
        print(f"{case:20s} max |logit| {double[case].abs().max():.2f}  f32 off by {spread:.1e}")
    record = {
        "provenance": {
            "script": "tools/oracle/architectures.py", "seed": SEED, "python": sys.version.split()[0],
            "torch": torch.__version__, "transformers": transformers.__version__,
            "gguf": version("gguf"),
            "float64": "torch.float32, torch.float = torch.float64; Tensor.float = Tensor.double; "
                       "default dtype float64; eager attention",
        },
        "vocabulary": VOCABULARY, "tokens": tokens, "positions": POSITIONS,
        "gguf_names": {name: gguf_names(config, weights[name]) for name, config in MODELS.items()},
        "cases": [{"name": c, "model": m, "changes": d} for c, (m, d) in CASES.items()],
    }
    (OUT / "cases.json").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
