#include <fmt/core.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "engine/model_files.h"
#include "io/gguf.h"
#include "io/model_files.h"
#include "kernels/attention.h"
#include "model/model.h"
#include "model/plan.h"

namespace strata::cli {
namespace {

struct InspectFlags {
  GlobalOptions global;
  std::string model;
  int64_t context = 0;
  std::string kv_type = "f16";
  bool tensors = false;
};

// What a file holds, and what strata would make of it; a model that cannot be run is still shown.
struct Inspection {
  std::unique_ptr<TensorStore> store;
  std::unique_ptr<Model> model;
  std::string refused;  // why it cannot be run; empty: it can
};

Inspection inspect(const std::filesystem::path& path) {
  Inspection out;
  out.store = open_model_files(path);
  try {
    out.model = load_model(path);
    load_model_files(*out.model);  // the tokenizer
  } catch (const Error& e) {
    out.refused = e.what();
  }
  return out;
}

std::string shape_text(const StoredTensor& tensor) {
  std::string text = "[";
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + "]";
}

OrderedJson plan_json(const MemoryPlan& plan) {
  OrderedJson out;
  out["parameters"] = plan.parameters;
  out["weight_bytes"] = plan.weight_bytes;
  out["weight_bytes_per_token"] = plan.weight_bytes_per_token;
  out["context"] = plan.context;
  out["kv_bytes_per_token"] = plan.kv_bytes_per_token;
  out["kv_bytes"] = plan.kv_bytes;
  out["kv_groups"] = OrderedJson::array();
  for (const KvGroupPlan& g : plan.kv_groups)
    out["kv_groups"].push_back({{"window", g.window},
                                {"layers", g.layers},
                                {"bytes_per_token", g.bytes_per_token},
                                {"tokens", g.tokens}});
  out["activation_peak_bytes"] = plan.activation_peak_bytes;
  out["flops_per_token"] = plan.linear_flops_per_token;
  return out;
}

void print_as_json(const Inspection& found, const PlanOptions& options) {
  OrderedJson out;
  out["files"] = found.store->files();
  out["file_bytes"] = found.store->file_bytes();
  out["metadata"] = OrderedJson::object();
  if (const auto* gguf = dynamic_cast<const GgufStore*>(found.store.get())) {
    out["gguf_version"] = gguf->version();
    for (const auto& [key, value] : gguf->metadata().values())
      out["metadata"][replace_invalid_utf8(key)] = describe(value);
  }
  out["tensors"] = OrderedJson::array();
  for (const StoredTensor& t : found.store->tensors())
    out["tensors"].push_back({{"name", t.name},
                              {"type", tensor_type_info(t.type).name},
                              {"shape", t.shape},
                              {"bytes", t.bytes.size()},
                              {"offset", t.file_offset}});
  out["runs"] = found.refused.empty();
  out["refused"] = found.refused.empty() ? OrderedJson(nullptr) : OrderedJson(found.refused);
  if (found.model) {
    out["architecture"] = found.model->config.architecture;
    out["hash"] = found.model->hash;
    out["unknown_keys"] = found.model->config.unknown_keys;
    out["plan"] = plan_json(plan_memory(*found.model, options));
  }
  print_json(to_json_text(out));
}

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void print_plan(const Model& model, const PlanOptions& options, const std::string& kv_type) {
  const MemoryPlan plan = plan_memory(model, options);
  const ModelConfig& c = model.config;
  fmt::print(
      "\narchitecture  {} ({} layers, width {}, {} heads over {} KV heads of {}, vocabulary {})\n",
      c.architecture, c.layers, c.hidden_size, c.heads, c.kv_heads, c.head_size, c.vocabulary_size);
  fmt::print("parameters    {:.1f} M{}\n", static_cast<double>(plan.parameters) / 1e6,
             c.tied_head ? " (tied head)" : "");
  fmt::print("weights       {:.1f} MiB, of which {:.1f} MiB are read for each token\n",
             mib(plan.weight_bytes), mib(plan.weight_bytes_per_token));
  fmt::print("KV cache      {} bytes per token ({}); {:.1f} MiB for {} tokens\n",
             plan.kv_bytes_per_token, kv_type, mib(plan.kv_bytes), plan.context);
  for (const KvGroupPlan& g : plan.kv_groups)
    fmt::print("              {} layers, {}: {} bytes per token, {} tokens kept\n", g.layers,
               g.window > 0 ? fmt::format("window {}", g.window) : std::string("all positions"),
               g.bytes_per_token, g.tokens);
  fmt::print("activations   {:.1f} MiB at most, for a step of {} tokens\n",
             mib(plan.activation_peak_bytes), options.batch_rows);
  fmt::print("peak          about {:.0f} MiB with one full context\n",
             mib(plan.weight_bytes + plan.kv_bytes + plan.activation_peak_bytes));
  for (const std::string& key : c.unknown_keys) fmt::print("unknown key   {}\n", key);
}

void print_as_text(const Inspection& found, const InspectFlags& flags, const PlanOptions& options) {
  for (const std::string& file : found.store->files()) fmt::print("file          {}\n", file);
  fmt::print("size          {:.1f} MiB, {} tensors\n",
             mib(static_cast<int64_t>(found.store->file_bytes())), found.store->tensors().size());
  if (const auto* gguf = dynamic_cast<const GgufStore*>(found.store.get())) {
    fmt::print("format        GGUF version {}\n\n", gguf->version());
    for (const auto& [key, value] : gguf->metadata().values())
      fmt::print("{:<44} {}\n", replace_invalid_utf8(key), describe(value));
  }
  if (flags.tensors) {
    fmt::print("\n");
    for (const StoredTensor& t : found.store->tensors())
      fmt::print("{:<44} {:<7} {:<18} {:>12} bytes at {}\n", t.name, tensor_type_info(t.type).name,
                 shape_text(t), t.bytes.size(), t.file_offset);
  } else {
    fmt::print("\n(--tensors lists the tensors)\n");
  }
  if (found.model) print_plan(*found.model, options, flags.kv_type);
  if (!found.refused.empty()) fmt::print("\nstrata cannot run it: {}\n", found.refused);
}

int inspect_command(const InspectFlags& flags) {
  const Inspection found = inspect(resolve_model_path(flags.model));
  PlanOptions options;
  options.context = flags.context;
  // Padding and scales included, as the engine's pages have them.
  if (found.model) {
    const PageShape page{found.model->config.head_size};  // of any size: the share is the same
    options.kv_bytes_per_value =
        static_cast<double>(head_page_bytes(*kv_type_of(flags.kv_type), page)) /
        (2.0 * page.tokens * page.head_size);
  }
  if (flags.global.json)
    print_as_json(found, options);
  else
    print_as_text(found, flags, options);
  return found.refused.empty() ? kDone : kBadData;
}

}  // namespace

void add_inspect(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<InspectFlags>();
  CLI::App& command =
      *app.add_subcommand("inspect", "what a model file holds, needs, and why it may be refused");
  command.footer(
      "Exit status 3 when strata cannot run the model.\nExample: strata inspect smollm2-135m "
      "--tensors");
  command.add_option("FILE", flags->model, "catalogue name, .gguf, .safetensors or folder")
      ->required();
  command
      .add_option("--context", flags->context, "tokens to plan the KV cache for; 0: the model's")
      ->check(zero_or_more());
  command.add_option("--kv-type", flags->kv_type, "plan the KV cache for f16, bf16, f32, q8 or q4")
      ->check(CLI::IsMember(kv_type_names()))
      ->capture_default_str();
  command.add_flag("--tensors", flags->tensors, "list every tensor");
  add_common_options(command, flags->global);
  command.callback([flags, &run] { run = [flags] { return inspect_command(*flags); }; });
}

}  // namespace strata::cli
