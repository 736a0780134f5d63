#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "bench/explain_attention.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "engine/sampler.h"
#include "engine/serve_exec.h"
#include "text/load_tokenizer.h"

namespace strata::cli {
namespace {

struct ExplainFlags {
  GlobalOptions global;
  std::string model;
  std::string text = "The cat sat on the mat because it was tired";
  std::string out;
  int layer = -1;
  int head = 0;
  int heads = 4;
  int head_size = 16;
  uint64_t seed = 1;
  std::string cross;
  std::vector<double> numbers = {2, 1, 3, 0.5};
  int64_t block = 2;
  std::string prompt;
  int top = 8;
};

int attention_command(const ExplainFlags& flags) {
  ExplainedAttention a;
  if (flags.model.empty()) {
    a = explain_random_attention(flags.text, flags.cross, flags.heads, flags.head_size, flags.seed);
  } else {
    const auto model = load_model(resolve_model_path(flags.model));
    a = explain_model_attention(*model, *load_tokenizer(model->path), flags.text, flags.layer);
  }
  if (flags.head < 0 || flags.head >= a.shape.heads)
    fail(ErrorCode::invalid_argument, "explain attention: head {} of {}", flags.head,
         a.shape.heads);
  if (!flags.out.empty()) {
    std::error_code error;
    std::filesystem::create_directories(flags.out, error);
    write_attention_pictures(a, flags.head, flags.out);
  }
  if (!flags.global.json) {
    fmt::print("{}", attention_text(a, flags.head));
    if (!flags.out.empty())
      fmt::print("\n{0}/attention_heatmap.png, {0}/multihead_comparison.png, {0}/attention.html\n",
                 flags.out);
    return kDone;
  }
  const AttentionShape& s = a.shape;
  OrderedJson j;
  j["model"] = a.model;
  j["layer"] = a.layer;
  j["tokens"] = a.tokens;
  j["key_tokens"] = a.key_tokens;
  j["heads"] = s.heads;
  j["kv_heads"] = s.kv_heads;
  j["head_size"] = s.head_size;
  j["scale"] = a.scale;
  j["weights"] = OrderedJson::array();  // [heads][queries][keys]
  for (int64_t h = 0; h < s.heads; ++h) {
    OrderedJson rows = OrderedJson::array();
    for (int64_t i = 0; i < s.queries; ++i) {
      const auto first = a.steps.weights.begin() + (h * s.queries + i) * s.keys;
      rows.push_back(std::vector<double>(first, first + s.keys));
    }
    j["weights"].push_back(std::move(rows));
  }
  for (const AttentionLink& l : strongest_links(a, 10))
    j["links"].push_back({{"head", l.head},
                          {"from", a.tokens[static_cast<size_t>(l.query)]},
                          {"to", a.key_tokens[static_cast<size_t>(l.key)]},
                          {"weight", l.weight}});
  print_json(to_json_text(j));
  return kDone;
}

int online_softmax_command(const ExplainFlags& flags) {
  const auto steps = online_softmax(flags.numbers, flags.block);
  if (steps.empty()) fail(ErrorCode::invalid_argument, "explain online-softmax: no numbers");
  std::vector<double> result;
  for (const double x : flags.numbers)
    result.push_back(std::exp(x - steps.back().max) / steps.back().sum);
  if (flags.global.json) {
    OrderedJson j;
    for (const OnlineSoftmaxStep& s : steps)
      j["steps"].push_back(
          {{"block", s.block}, {"max", s.max}, {"factor", s.factor}, {"sum", s.sum}});
    j["softmax"] = result;
    print_json(to_json_text(j));
    return kDone;
  }
  fmt::print(
      "The softmax of numbers that come a block at a time; of those before, only the largest "
      "and a\nsum are kept. A block with a new largest number scales the old sum down.\n\n");
  const auto list = [](const std::vector<double>& values, const char* spec) {
    std::string out;
    for (const double v : values)
      out += (out.empty() ? "" : ", ") + fmt::format(fmt::runtime(spec), v);
    return out;
  };
  for (size_t i = 0; i < steps.size(); ++i)
    fmt::print("block {}: [{}]\n  max {:g}, old sum times {:.4f}, sum {:.4f}\n", i + 1,
               list(steps[i].block, "{:g}"), steps[i].max, steps[i].factor, steps[i].sum);
  fmt::print("\nsoftmax = e^(x - {:g}) / {:.4f} = [{}]\n", steps.back().max, steps.back().sum,
             list(result, "{:.3f}"));
  return kDone;
}

// ---- sampling ----

struct NextToken {
  std::string text;
  double logit = 0;
  bool in_prompt = false;
};

// Logits of the token after the prompt, best first.
std::vector<NextToken> next_tokens(const ExplainFlags& flags, size_t& vocabulary) {
  const auto model = load_model(resolve_model_path(flags.model));
  const auto tokenizer = load_tokenizer(model->path);
  const std::vector<TokenId> ids = tokenizer->encode(flags.prompt, {ControlText::parse, true});
  if (ids.empty()) fail(ErrorCode::invalid_argument, "explain sampling: the prompt has no tokens");
  ServeExec exec(*model, {});
  std::vector<int32_t> positions(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) positions[i] = static_cast<int32_t>(i);
  const std::vector<SequenceRows> sequences = {{0, static_cast<int32_t>(ids.size()), 0, -1}};
  const Tensor hidden = forward_hidden(exec, model->transformer, {ids, positions, sequences});
  const auto last = static_cast<int32_t>(ids.size()) - 1;
  const Tensor logits = forward_logits(exec, model->transformer, hidden, std::span(&last, 1));
  std::vector<std::pair<double, TokenId>> order;
  for (int64_t v = 0; v < logits.columns; ++v)
    order.emplace_back(-double{logits.row<float>(0)[v]}, static_cast<TokenId>(v));
  std::sort(order.begin(), order.end());
  vocabulary = order.size();
  std::vector<NextToken> tokens;
  for (const auto& [negative, id] : order)
    tokens.push_back({to_json_text(Json(tokenizer->token_bytes(id, false, true))), -negative,
                      std::find(ids.begin(), ids.end(), id) != ids.end()});
  return tokens;
}

// What the repetition penalty leaves of the logits (Keskar et al. 2019, arXiv:1909.05858): those of
// tokens that are in the text already are divided by it, or multiplied where they are negative.
std::vector<NextToken> penalised(std::vector<NextToken> tokens, double penalty) {
  for (NextToken& t : tokens)
    if (t.in_prompt) t.logit = t.logit > 0 ? t.logit / penalty : t.logit * penalty;
  return tokens;
}

// Shares of the tokens at a temperature; 0: all to the first, which is the best.
std::vector<double> shares(const std::vector<NextToken>& tokens, double temperature) {
  std::vector<double> p(tokens.size(), 0.0);
  if (temperature == 0) {
    p[0] = 1;
    return p;
  }
  double largest = tokens[0].logit, sum = 0;
  for (const NextToken& t : tokens) largest = std::max(largest, t.logit);
  for (size_t i = 0; i < p.size(); ++i)
    sum += p[i] = std::exp((tokens[i].logit - largest) / temperature);
  for (double& x : p) x /= sum;
  return p;
}

void keep_first(std::vector<double>& p, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (i >= count) p[i] = 0;
    sum += p[i];
  }
  for (double& x : p) x /= sum;
}

int sampling_command(const ExplainFlags& flags) {
  size_t vocabulary = 0;
  const std::vector<NextToken> tokens = next_tokens(flags, vocabulary);
  std::vector<std::pair<std::string, std::vector<double>>> rows;
  rows.emplace_back("greedy", shares(tokens, 0));
  for (const double t : {0.1, 0.7, 1.0, 1.5})
    rows.emplace_back(fmt::format("temperature {:g}", t), shares(tokens, t));
  const std::vector<double> plain = shares(tokens, 1);
  rows.emplace_back("top-k 5", plain);
  keep_first(rows.back().second, 5);
  rows.emplace_back("top-p 0.9", plain);
  size_t count = 0;
  for (double sum = 0; count < plain.size() && sum < 0.9; ++count) sum += plain[count];
  keep_first(rows.back().second, count);
  rows.emplace_back("min-p 0.1", plain);
  count = 0;
  while (count < plain.size() && plain[count] >= 0.1 * plain[0]) ++count;
  keep_first(rows.back().second, count);
  constexpr double kPenalty = 1.3;
  rows.emplace_back(fmt::format("repetition penalty {:g}", kPenalty),
                    shares(penalised(tokens, kPenalty), 1));
  const size_t shown = std::min(static_cast<size_t>(flags.top), tokens.size());
  if (flags.global.json) {
    OrderedJson j;
    for (size_t i = 0; i < shown; ++i) {
      j["tokens"].push_back(tokens[i].text);
      j["logits"].push_back(tokens[i].logit);
      j["in_prompt"].push_back(tokens[i].in_prompt);
    }
    for (const auto& [name, p] : rows)
      j["distributions"][name] =
          std::vector<double>(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(shown));
    print_json(to_json_text(j));
    return kDone;
  }
  for (const auto& [name, p] : rows) {
    const auto kept =
        static_cast<size_t>(std::count_if(p.begin(), p.end(), [](double x) { return x > 0; }));
    fmt::print("{}: {} of {} tokens can be drawn\n", name, kept, vocabulary);
    for (size_t i = 0; i < shown; ++i)
      fmt::print("  {:>14} {:6.2f} % {}\n", tokens[i].text, 100 * p[i],
                 std::string(static_cast<size_t>(std::lround(40 * p[i])), '#'));
  }
  return kDone;
}

}  // namespace

void add_explain(CLI::App& app, Run& run) {
  CLI::App& explain = *app.add_subcommand("explain", "shows how a part works, with numbers");
  explain.require_subcommand(1);
  explain.footer(
      "Example: strata explain attention smollm2-135m --text 'The cat sat' --out pictures");
  {
    const auto flags = std::make_shared<ExplainFlags>();
    CLI::App& command = *explain.add_subcommand(
        "attention", "scores, weights and links between the tokens of a text");
    command.footer("Example: strata explain attention smollm2-135m --layer 5 --out pictures");
    CLI::Option* model = command.add_option(
        "MODEL", flags->model, "catalogue name, .gguf file or folder; default: random projections");
    command.add_option("--text", flags->text, "the text")->capture_default_str();
    command.add_option("--layer", flags->layer, "of the model; negative: from the last")
        ->needs(model)
        ->capture_default_str();
    command.add_option("--head", flags->head, "whose numbers are printed")->capture_default_str();
    command.add_option("--heads", flags->heads, "of random projections")
        ->excludes(model)
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
    command.add_option("--head-size", flags->head_size, "of random projections")
        ->excludes(model)
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    command.add_option("--seed", flags->seed, "of random projections")->excludes(model);
    command
        .add_option("--cross", flags->cross,
                    "random projections: the tokens look at this other text (cross-attention)")
        ->type_name("TEXT")
        ->excludes(model);
    command.add_option("--out", flags->out, "folder for pictures and an HTML page")
        ->type_name("FOLDER");
    add_common_options(command, flags->global);
    command.callback([flags, &run] { run = [flags] { return attention_command(*flags); }; });
  }
  {
    const auto flags = std::make_shared<ExplainFlags>();
    CLI::App& command = *explain.add_subcommand("online-softmax", "a softmax block by block");
    command.footer("Example: strata explain online-softmax --numbers 2,1,3,0.5 --block 2");
    command.add_option("--numbers", flags->numbers, "what the softmax is of")
        ->delimiter(',')
        ->allow_extra_args(false);
    command.add_option("--block", flags->block, "numbers at a time")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
        ->capture_default_str();
    add_common_options(command, flags->global);
    command.callback([flags, &run] { run = [flags] { return online_softmax_command(*flags); }; });
  }
  const auto flags = std::make_shared<ExplainFlags>();
  CLI::App& command = *explain.add_subcommand(
      "sampling",
      "what temperature, top-k, top-p, min-p and a repetition penalty make of the next token");
  command.footer("Example: strata explain sampling smollm2-135m -p 'The capital of France is'");
  command.add_option("MODEL", flags->model, "catalogue name, .gguf file or folder")->required();
  command.add_option("-p,--prompt", flags->prompt, "the text before")->required();
  command.add_option("--top", flags->top, "tokens to show")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_common_options(command, flags->global);
  command.callback([flags, &run] { run = [flags] { return sampling_command(*flags); }; });
}

}  // namespace strata::cli
