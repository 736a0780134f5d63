"""What bench/compare can compare: for each work the run of `strata bench` and the sizes a peer needs."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Work:
    kind: str                      # what peers look at: prefill, decode, batch, cold, attention-forward or -backward, matmul,
                                   # train, train-gpt2
    label: str                     # for the table
    unit: str
    sizes: dict                    # by name; `model` is a path
    strata: list                   # arguments of `strata bench`
    what: str                      # the result of that run to take
    where: dict = dataclasses.field(default_factory=dict)     # and its params
    lower_is_better: bool = False

    def take(self, report):
        """The result of this work in a report of `strata bench --json`."""
        [result] = [r for r in report["results"]
                    if r["what"] == self.what and all(r["params"][key] == value for key, value in self.where.items())]
        return result


def prefill(options, model):
    n = options.prompt
    return [Work("prefill", f"prompt of {n}", "tokens/s", {"model": model, "prompt": n},
                 ["prefill", model, "--prompt", n, "--repeats", 1], "prefill")]


def decode(options, model):
    n = options.tokens
    return [Work("decode", f"decode {n} after {context}", "tokens/s", {"model": model, "tokens": n, "context": context},
                 ["decode", model, "--tokens", n, "--context", max(context, 1), "--repeats", 1], "decode")
            for context in options.context]


def batch(options, model):
    context, n = options.batch_context, options.batch_tokens
    return [Work("batch", f"decode {n}, {streams} streams of {context}", "tokens/s",
                 {"model": model, "streams": streams, "context": context, "tokens": n},
                 ["batch", model, "--streams", streams, "--context", context, "--tokens", n, "--repeats", 1], "batch_decode")
            for streams in options.streams]


def cold(options, model):
    return [Work("cold", "cold start to first token", "s", {"model": model}, ["load", model, "--repeats", 1], "cold_start",
                 lower_is_better=True)]


def attention(options, _model):
    sizes = {"heads": options.heads, "context": options.attention_context, "head_size": options.head_size}
    return [Work(f"attention-{way}", f"training attention {way} f32, H={sizes['heads']} T={sizes['context']} D={sizes['head_size']}",
                 "GFLOP/s", sizes, ["train-ops", "--ops", "attention", "--heads", sizes["heads"], "--head-size", sizes["head_size"],
                                    "--tokens", sizes["context"], "--repeats", 3], f"train_attention_{way}")
            for way in ("forward", "backward")]


def paged_attention(options, _model):
    sizes = {"heads": options.heads, "context": options.attention_context, "head_size": options.head_size}
    return [Work("attention-forward", f"serving attention f32, H={sizes['heads']} T={sizes['context']} D={sizes['head_size']}", "GFLOP/s",
                 sizes, ["attention", "--heads", sizes["heads"], "--kv-heads", sizes["heads"], "--head-size", sizes["head_size"],
                         "--context", sizes["context"], "--kv-type", "f32", "--repeats", 3],
                 "attention_forward", {"queries": sizes["context"]})]


def matmul(options, _model):
    """y = x w^T, d_x = d_y w, d_w = d_y^T x: the products of a linear layer's step."""
    works = []
    for shape in options.shapes:
        rows, out, width = (int(n) for n in shape.split("x"))
        for product in options.products:
            works.append(Work("matmul", f"f32 product {product}, {rows} rows, weight [{out}, {width}]", "GFLOP/s",
                              {"rows": rows, "out": out, "in": width, "product": product},
                              ["train-ops", "--ops", product, "--rows", rows, "--shapes", f"{out}x{width}", "--repeats", 15],
                              f"gemm_{product}"))
    return works


# What PyTorch's side computes, whatever the preset has.
GPT2_BLOCKS = ["--positions", "learned", "--norm", "layer", "--activation", "gelu", "--gated", "false", "--bias", "true", "--dropout", 0,
               "--optimizer", "adamw"]


def train(options, _model, dtype="f32"):
    sizes = {"batch": options.train_batch, "context": 256, "layers": 6, "heads": 6, "width": 384, "vocabulary": 66, "dtype": dtype}
    return [Work("train", f"GPT of 10.8M, step of {sizes['batch']} x 256, AdamW, {dtype}", "tokens/s", sizes,
                 ["train", "--preset", "shakespeare", *GPT2_BLOCKS, "--batch", sizes["batch"], "--dtype", dtype, "--repeats", 3],
                 "train")]


def train_bf16(options, model):
    return train(options, model, "bf16")


def train_gpt2(options, _model):
    sizes = {"batch": 4, "context": 64, "layers": 12, "heads": 12, "width": 768, "vocabulary": 50257, "dtype": "f32"}
    return [Work("train-gpt2", "GPT-2 of 124M, step of 4 x 64, AdamW, f32", "tokens/s", sizes,
                 ["train", "--preset", "gpt2-124m", "--batch", 4, "--accumulation", 1, "--context", 64, "--repeats", 3], "train")]


WITH_MODEL = {"prefill": prefill, "decode": decode, "batch": batch, "cold": cold}
WITHOUT_MODEL = {"attention": attention, "paged-attention": paged_attention, "matmul": matmul, "train": train,
                 "train-bf16": train_bf16, "train-gpt2": train_gpt2}
