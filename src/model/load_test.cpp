// What a configuration or a set of tensors may not be, and how it is said.
#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/key_reader.h"
#include "model/test_models.h"
#include "numeric/group_encode.h"

namespace strata::testing {
namespace {

using ::testing::HasSubstr;

// Loads and expects an Error of this code whose message has all the parts.
void expect_refused(const std::filesystem::path& path, ErrorCode code,
                    const std::vector<std::string>& parts, const LoadOptions& options = {}) {
  try {
    load_model(path, options);
    ADD_FAILURE() << "loaded; wanted an error with '" << parts.front() << "'";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    for (const std::string& part : parts) EXPECT_THAT(e.what(), HasSubstr(part));
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
  }
}

void expect_gguf_refused(const std::string& golden, const std::string& key, const GgufValue& value,
                         ErrorCode code, const std::vector<std::string>& parts) {
  SCOPED_TRACE(key);
  const TemporaryFolder folder;
  const auto path = folder.path() / "twin.gguf";
  write_gguf_twin(path, golden_case(golden), [&](GgufWriter& w) { w.set(key, value); });
  std::vector<std::string> all = parts;
  all.push_back("twin.gguf");
  all.push_back(key);
  expect_refused(path, code, all);
}

void expect_hf_refused(const std::string& golden, const Json& changes, ErrorCode code,
                       const std::vector<std::string>& parts) {
  SCOPED_TRACE(changes.dump());
  const TemporaryFolder folder;
  const GoldenCase& c = golden_case(golden);
  Json config = golden_config(c);
  for (const auto& [key, value] : changes.items()) config[key] = value;
  write_hf_folder(folder.path() / "m", c.model, config);
  std::vector<std::string> all = parts;
  all.push_back("config.json");
  expect_refused(folder.path() / "m", code, all);
}

constexpr ErrorCode kCorrupt = ErrorCode::data_corrupt;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;

TEST(GgufConfig, ValuesThatCannotBe) {
  const auto u32 = GgufValue::of_u32;
  const auto refused = [](const char* key, const GgufValue& value, const char* part) {
    expect_gguf_refused("llama", key, value, kCorrupt, {part});
  };
  refused("llama.attention.head_count", u32(0), "is 0, wanted 1 to");
  refused("llama.block_count", u32(1u << 31), "is 2147483648, wanted 1 to");
  refused("llama.block_count", GgufValue::of_string("two"), "wanted an integer");
  refused("llama.block_count", GgufValue::of_i32(-2), "is -2");
  refused("llama.attention.layer_norm_rms_epsilon", GgufValue::of_f32(std::nanf("")), "is nan");
  refused("llama.attention.layer_norm_rms_epsilon", GgufValue::of_f32(0), "is 0, wanted more");
  refused("llama.attention.layer_norm_rms_epsilon", GgufValue::of_f32(INFINITY), "is inf");
  refused("llama.attention.head_count_kv", u32(3), "wanted a divisor of");
  refused("llama.attention.head_count", u32(5), "wanted a divisor of");
  refused("llama.embedding_length", u32(0), "is 0");
  refused("llama.embedding_length", GgufValue::of_u64(UINT64_MAX), "wanted 1 to");
  refused("llama.rope.freq_base", GgufValue::of_f32(-1), "is -1");
  refused("llama.rope.dimension_count", u32(7), "wanted an even number");
  refused("llama.rope.dimension_count", u32(64), "wanted 2 to 8");
  refused("llama.rope.scaling.factor", GgufValue::of_f32(0), "is 0");
  refused("llama.vocab_size", u32(0), "is 0");
  refused("llama.context_length", u32(0), "is 0");
}

TEST(GgufConfig, MathematicsBeyondStrata) {
  const auto refused = [](const char* golden, const char* key, const GgufValue& value,
                          const char* part) {
    expect_gguf_refused(golden, key, value, kUnsupported, {part});
  };
  refused("llama", "general.architecture", GgufValue::of_string("mamba"), "'mamba'");
  refused("llama", "llama.expert_count", GgufValue::of_u32(8), "mixture of experts");
  refused("llama", "llama.rope.scaling.type", GgufValue::of_string("longrope"), "'longrope'");
  refused("llama", "llama.logit_scale", GgufValue::of_f32(0.25f), "is 0.25");
  refused("llama", "llama.residual_scale", GgufValue::of_f32(0.22f), "residual");
  refused("llama", "llama.attention.value_length", GgufValue::of_u32(16), "values");
  refused("gemma3", "gemma3.final_logit_softcapping", GgufValue::of_f32(30), "soft cap");
  refused("gemma3", "gemma3.attn_logit_softcapping", GgufValue::of_f32(50), "soft cap");
  refused("llama", "llama.attention.max_alibi_bias", GgufValue::of_f32(8), "ALiBi");
  refused("llama", "llama.attention.causal", GgufValue::of_bool(false), "both directions");
  refused("qwen2", "qwen2.attention.sliding_window", GgufValue::of_u32(48), "window");
}

TEST(GgufConfig, NeutralValuesAskForNothing) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "twin.gguf";
  write_gguf_twin(path, golden_case("llama"), [](GgufWriter& w) {
    w.set("llama.expert_count", GgufValue::of_u32(0));
    w.set("llama.attention.causal", GgufValue::of_bool(true));
    w.set("llama.rope.scaling.type", GgufValue::of_string("none"));
    w.set("general.license", GgufValue::of_string("MIT"));
    w.set("tokenizer.ggml.add_bos_token", GgufValue::of_bool(true));
    // A promise of a context costs nothing: memory is planned from what is asked for.
    w.set("llama.context_length", GgufValue::of_u64(UINT64_MAX));
  });
  const std::unique_ptr<Model> model = load_model(path, {.strict = true});
  EXPECT_TRUE(model->config.unknown_keys.empty());
  EXPECT_THAT(model->config.inert_keys, ::testing::Contains("general.license"));
  EXPECT_EQ(model->config.context_length, 1 << 30);
  EXPECT_EQ(model->config.name, "twin");
}

TEST(GgufConfig, UnknownKeysAreNamedAndRefusedWhenStrict) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "twin.gguf";
  write_gguf_twin(path, golden_case("llama"),
                  [](GgufWriter& w) { w.set("llama.attention.new_trick", GgufValue::of_u32(1)); });
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(load_model(path)->config.unknown_keys,
              ::testing::ElementsAre("llama.attention.new_trick"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("'llama.attention.new_trick'"));
  expect_refused(path, kUnsupported, {"'llama.attention.new_trick'", "--strict"}, {.strict = true});
}

TEST(GgufConfig, GemmaFilesWithoutPatternHaveEverySixthLayerGlobal) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "twin.gguf";
  write_gguf_twin(path, golden_case("gemma3"));
  const std::unique_ptr<Model> model = load_model(path);
  ASSERT_EQ(model->layer_groups.size(), 2u);
  EXPECT_EQ(model->layer_groups[0].window, 32);
  EXPECT_EQ(model->layer_groups[0].layers, (std::vector<int>{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(model->layer_groups[1].layers, (std::vector<int>{5}));
  EXPECT_EQ(model->transformer.block_configs[5].attention.layer_group, 1);
  EXPECT_EQ(model->transformer.block_configs[5].attention.rope, model->ropes[0].get());
  EXPECT_EQ(model->transformer.block_configs[6].attention.rope, model->ropes[1].get());
}

TEST(HfConfig, ValuesThatCannotBe) {
  const auto refused = [](const Json& changes, const std::vector<std::string>& parts) {
    expect_hf_refused("llama", changes, kCorrupt, parts);
  };
  refused({{"num_attention_heads", 0}}, {"'num_attention_heads'", "is 0"});
  refused({{"num_hidden_layers", 2147483648}}, {"'num_hidden_layers'"});
  refused({{"num_hidden_layers", "two"}}, {"'num_hidden_layers'", "\"two\"", "an integer"});
  refused({{"hidden_size", 31.5}}, {"'hidden_size'", "31.5"});
  refused({{"hidden_size", nullptr}}, {"'hidden_size'", "is missing"});
  refused({{"rms_norm_eps", -1e-6}}, {"'rms_norm_eps'"});
  refused({{"num_key_value_heads", 3}}, {"'num_key_value_heads'", "divisor"});
  refused({{"rope_scaling", "linear"}}, {"'rope_scaling'", "an object"});
  refused({{"rope_scaling", {{"rope_type", "linear"}}}}, {"'rope_scaling.factor'", "missing"});
  refused({{"tie_word_embeddings", 1}}, {"'tie_word_embeddings'"});
  expect_hf_refused("qwen2", {{"layer_types", {"full_attention"}}}, kCorrupt,
                    {"'layer_types'", "1 entries", "= 2"});
}

TEST(HfConfig, MathematicsBeyondStrata) {
  const auto refused = [](const char* golden, const Json& changes,
                          const std::vector<std::string>& parts) {
    expect_hf_refused(golden, changes, kUnsupported, parts);
  };
  refused("llama", {{"model_type", "mixtral"}}, {"'model_type'", "'mixtral'", "gemma3_text"});
  refused("llama", {{"hidden_act", "xielu"}}, {"'hidden_act'", "'xielu'"});
  refused("llama", {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2}}}},
          {"'rope_scaling.rope_type'", "'dynamic'"});
  refused("llama", {{"quantization_config", {{"quant_method", "awq"}}}}, {"'awq'"});
  refused("gemma3", {{"final_logit_softcapping", 30.0}}, {"'final_logit_softcapping'", "is 30"});
  refused("gemma3", {{"use_bidirectional_attention", true}}, {"'use_bidirectional_attention'"});
  refused("qwen3", {{"layer_types", {"full_attention", "chunked_attention"}}},
          {"'chunked_attention'"});
  refused("gpt2", {{"scale_attn_weights", false}}, {"'scale_attn_weights'"});
}

// transformers 5 writes rope_parameters and layer_types where 4 wrote several keys.
TEST(HfConfig, BothSpellingsOfRopeAndWindowsMeanTheSame) {
  const GoldenCase& c = golden_case("gemma3_scaling");
  Json config = golden_config(c);
  for (const char* key :
       {"rope_theta", "rope_local_base_freq", "rope_scaling", "sliding_window_pattern"})
    config.erase(key);
  config["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 5000.0}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 300.0}}}};
  const std::string local = "sliding_attention";
  config["layer_types"] = {local, local, local, local, local, "full_attention", local};
  const TemporaryFolder folder;
  write_hf_folder(folder.path() / "m", c.model, config);
  const std::unique_ptr<Model> model = load_model(folder.path() / "m", {.strict = true});
  EXPECT_EQ(run(*model, goldens().tokens, goldens().positions),
            run(*load_golden(c.name), goldens().tokens, goldens().positions));
}

TEST(HfConfig, AWindowIsWhatTheFileSaysNullIncluded) {
  for (const auto& [value, wanted] : std::vector<std::pair<Json, int>>{{nullptr, 0}, {7, 7}}) {
    const TemporaryFolder folder;
    Json config = golden_config(golden_case("mistral"));
    config["sliding_window"] = value;
    write_hf_folder(folder.path() / "m", "mistral", config);
    EXPECT_EQ(load_model(folder.path() / "m")->layer_groups.at(0).window, wanted);
  }
  const TemporaryFolder folder;
  Json config = golden_config(golden_case("mistral"));
  config.erase("sliding_window");
  write_hf_folder(folder.path() / "m", "mistral", config);
  EXPECT_EQ(load_model(folder.path() / "m")->layer_groups.at(0).window, 4096);
}

// ---- Tensors ------------------------------------------------------------------------------------

// A folder as compression writes it: matrices in groups of int8 or int4, named in the metadata.
TEST(Tensors, BlockFormatsInAFolder) {
  const GoldenCase& c = golden_case("llama");
  const auto store = open_safetensors(golden_folder() / c.model / "model.safetensors");
  const std::vector<int32_t> rows = {3, 9};
  const std::vector<double> want = run(*load_golden("llama"), goldens().tokens, rows);
  double before = 1e-6;
  for (const TensorType type : {TensorType::q8_0, TensorType::q4_1}) {  // 32 columns: groups of 32
    const TensorTypeInfo& info = tensor_type_info(type);
    std::vector<std::vector<std::byte>> bytes;
    bytes.reserve(store->tensors().size());
    std::vector<SafetensorsTensor> tensors;
    for (const StoredTensor& t : store->tensors()) {
      tensors.push_back({t.name, t.type, t.shape, t.bytes});
      if (t.shape.size() != 2 || t.columns() % info.block_elements != 0) continue;
      std::vector<float> values(static_cast<size_t>(t.elements()));
      decode_elements(t.type, t.bytes.data(), values.data(), t.elements());
      bytes.emplace_back(values.size() / static_cast<size_t>(info.block_elements) *
                         static_cast<size_t>(info.block_bytes));
      ASSERT_TRUE(encode_groups(type, values.data(), bytes.back().data(), t.elements()));
      tensors.back().type = type;
      tensors.back().bytes = bytes.back();
    }
    ASSERT_GE(bytes.size(), 12u);  // all but `down`, 48 wide
    const TemporaryFolder folder;
    Json config = golden_config(c);
    config["quantization_config"] = {{"quant_method", "strata"}};
    std::ofstream(folder.path() / "config.json") << config.dump();
    write_safetensors(folder.path() / "model.safetensors", tensors);
    const double error =
        relative_error(run(*load_model(folder.path()), goldens().tokens, rows), want);
    // Eight bits lose less than four, both something, neither the model.
    EXPECT_GT(error, before) << info.name;
    before = error;
  }
  EXPECT_LT(before, 0.5);
}

TEST(Tensors, ShapesAreComparedWithTheKeysTheyComeFrom) {
  expect_gguf_refused("llama", "llama.vocab_size", GgufValue::of_u32(65), kCorrupt,
                      {"'token_embd.weight'", "[64, 32]", "[65, 32]", "llama.embedding_length"});
  expect_gguf_refused("llama", "llama.feed_forward_length", GgufValue::of_u32(40), kCorrupt,
                      {"'blk.0.ffn_gate.weight'", "[48, 32]", "[40, 32]"});
  const TemporaryFolder folder;
  Json config = golden_config(golden_case("gpt2"));
  config["n_inner"] = 100;
  write_hf_folder(folder.path() / "m", "gpt2", config);
  expect_refused(folder.path() / "m", kCorrupt,
                 {"model.safetensors", "'transformer.h.0.mlp.c_fc.weight'", "[32, 128]",
                  "[32, 100]", "n_inner and n_embd"});
}

TEST(Tensors, MissingAndSurplusOnesAreNamed) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "twin.gguf";
  write_gguf_twin(path, golden_case("llama"),
                  [](GgufWriter& w) { w.set("llama.block_count", GgufValue::of_u32(3)); });
  expect_refused(path, kCorrupt, {"twin.gguf", "9 of the tensors", "'blk.2.attn_norm.weight'"});
  write_gguf_twin(path, golden_case("llama"),
                  [](GgufWriter& w) { w.set("llama.block_count", GgufValue::of_u32(1)); });
  expect_refused(path, kUnsupported, {"twin.gguf", "9 tensors", "'blk.1.", "and 4 more"});
}

TEST(Tensors, ALargeLayerCountCostsOnlyTheLookUps) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "twin.gguf";
  write_gguf_twin(path, golden_case("llama"),
                  [](GgufWriter& w) { w.set("llama.block_count", GgufValue::of_u32(4096)); });
  expect_refused(path, kCorrupt, {"36846 of the tensors", "'blk.2.attn_norm.weight'"});
}

TEST(Hash, TellsContentConfigurationAndConversionApart) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const GgufChange& change) {
    write_gguf_twin(folder.path() / name, golden_case("llama"), change);
    return load_model(folder.path() / name)->hash;
  };
  const std::string hash = write("a.gguf", {});
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(write("b.gguf", {}), hash);
  EXPECT_NE(
      write("c.gguf", [](GgufWriter& w) { w.set("general.name", GgufValue::of_string("other")); }),
      hash);
  EXPECT_NE(load_golden("llama")->hash, hash);
  EXPECT_NE(load_golden("llama_theta")->hash, load_golden("llama")->hash);
}

TEST(Parameters, AreCountedOnce) {
  // 64 x 32 embeddings (twice: untied), per layer 2 norms, q, o 32 x 32, k, v 16 x 32, 3 x 48 x 32.
  const int64_t layer = 2 * 32 + 2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32;
  EXPECT_EQ(load_golden("llama")->parameter_count, 2 * 64 * 32 + 2 * layer + 32);
  // 4 heads of 12, biases on all projections, tied.
  const int64_t biased = 2 * 32 + 4 * 48 * 32 + 3 * 48 + 32 + 3 * 48 * 32 + 2 * 48 + 32;
  EXPECT_EQ(load_golden("llama_bias")->parameter_count, 64 * 32 + 2 * biased + 32);
}

TEST(ModelPath, CatalogueNamesFilesAndWhatIsNeither) {
  const TemporaryFolder home;
  setenv("STRATA_HOME", home.path().c_str(), 1);
  const auto refused = [](const std::string& what, const std::vector<std::string>& parts) {
    try {
      resolve_model_path(what);
      ADD_FAILURE() << what;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::not_found);
      for (const std::string& part : parts) EXPECT_THAT(e.what(), HasSubstr(part));
    }
  };
  refused("smollm2-135m", {"scripts/get-model smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf"});
  refused("no-such", {"'no-such'", "smollm2-135m", "qwen2.5-coder-1.5b", "scripts/get-model"});
  EXPECT_EQ(resolve_model_path(home.path().string()), home.path());
  const auto file = home.path() / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
  std::filesystem::create_directories(file.parent_path());
  std::filesystem::copy_file(golden_folder() / "cases.json", file);
  EXPECT_EQ(resolve_model_path("smollm2-135m"), file);
  unsetenv("STRATA_HOME");
}

}  // namespace
}  // namespace strata::testing
