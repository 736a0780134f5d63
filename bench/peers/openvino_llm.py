"""OpenVINO GenAI's LLMPipeline on the same GGUF file, where it can read it."""
import sys

NAME = "openvino"
KINDS = {"prefill", "decode"}
HOW = "pip install openvino-genai numpy, then --peer-python PYTHON"

if __name__ == "__main__":
    from python_peer import answer
else:
    from .python_peer import missing_package, run


def missing(options):
    return missing_package(options, "openvino_genai, numpy")


def measure(options, work):
    return run(options, __file__, work)


def rate(sizes):
    """Tokens/s by the pipeline's own clock: to the first token, or per token after it. The first answer warms up, with
    another prompt: a pipeline that remembers prompts is not to answer from memory."""
    import numpy
    import openvino
    import openvino_genai
    pipeline = openvino_genai.LLMPipeline(sizes["model"], "CPU", INFERENCE_NUM_THREADS=sizes["threads"])
    vocabulary = len(pipeline.get_tokenizer().get_vocab())
    is_prompt = sizes["kind"] == "prefill"
    length = sizes["prompt"] if is_prompt else max(sizes["context"], 1)
    random = numpy.random.default_rng(1)
    config = openvino_genai.GenerationConfig(max_new_tokens=1 if is_prompt else sizes["tokens"] + 1, ignore_eos=True, do_sample=False)
    for _ in range(2):
        ids = random.integers(0, vocabulary, (1, length), dtype=numpy.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        metrics = pipeline.generate(inputs, config).perf_metrics
    return length / metrics.get_ttft().mean * 1e3 if is_prompt else 1e3 / metrics.get_tpot().mean


if __name__ == "__main__":
    sys.exit(answer(rate))
