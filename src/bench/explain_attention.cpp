#include "bench/explain_attention.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "base/philox.h"
#include "base/replace_file.h"
#include "base/utf8.h"
#include "exec/ref_exec.h"
#include "report/heat_map.h"

namespace strata {
namespace {

constexpr size_t kMostTokens = 128;
constexpr int64_t kShownTokens = 12;

// A token as a label: blanks and line ends visible.
std::string shown_token(const std::string& bytes) {
  std::string out;
  for (const char c : replace_invalid_utf8(bytes)) {
    if (c == ' ')
      out += "\u00b7";
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else
      out += c;
  }
  return out;
}

// [T, heads * size] to [heads, T, size].
std::vector<double> by_head(const Tensor& t, int64_t heads) {
  const int64_t size = t.columns / heads;
  std::vector<double> out;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t r = 0; r < t.rows; ++r)
      for (int64_t d = 0; d < size; ++d) out.push_back(t.row<double>(r)[h * size + d]);
  return out;
}

std::vector<double> random_numbers(size_t n, uint64_t seed, uint32_t stream) {
  std::vector<double> out(n);
  for (size_t i = 0; i < n; ++i) {
    const auto w = philox4x32(
        {static_cast<uint32_t>(i), stream, static_cast<uint32_t>(RandomPurpose::initialisation), 1},
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    const double u = 1 - uniform_from_words(w[0], w[1]);
    out[i] = std::sqrt(-2 * std::log(u)) *
             std::cos(2 * std::numbers::pi * uniform_from_words(w[2], w[3]));
  }
  return out;
}

double weight_at(const ExplainedAttention& a, int64_t head, int64_t query, int64_t key) {
  const AttentionShape& s = a.shape;
  return a.steps.weights[static_cast<size_t>((head * s.queries + query) * s.keys + key)];
}

std::string matrix_text(const ExplainedAttention& a, const std::vector<double>& values,
                        int64_t head) {
  const AttentionShape& s = a.shape;
  const int64_t rows = std::min(s.queries, kShownTokens), columns = std::min(s.keys, kShownTokens);
  std::string out;
  for (int64_t i = 0; i < rows; ++i) {
    out += fmt::format("  {:>12} |", clipped_utf8(a.tokens[static_cast<size_t>(i)], 12));
    for (int64_t t = 0; t < columns; ++t) {
      const double v = values[static_cast<size_t>((head * s.queries + i) * s.keys + t)];
      out += std::isinf(v) ? "       ." : fmt::format(" {:7.3f}", v);
    }
    out += "\n";
  }
  if (rows < s.queries || columns < s.keys)
    out += fmt::format("  ... {} queries and {} keys in all\n", s.queries, s.keys);
  return out;
}

void check_tokens(size_t count) {
  if (count < 1 || count > kMostTokens)
    fail(ErrorCode::invalid_argument, "explain attention: the text has {} tokens, wanted 1 to {}",
         count, kMostTokens);
}

std::string html_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

// Of layers [first, first + count).
std::vector<ExplainedAttention> explain_layers(const Model& model, const Tokenizer& tokenizer,
                                               std::span<const int32_t> ids, int first, int count) {
  check_tokens(ids.size());
  const auto T = static_cast<int64_t>(ids.size());
  struct Inputs {
    std::vector<double> q, k, v;
  };
  std::vector<Inputs> inputs(static_cast<size_t>(count));
  const auto config_of = [&](int layer) -> const AttentionConfig& {
    return model.transformer.block_configs[static_cast<size_t>(layer)].attention;
  };
  RefOptions options;
  options.observer = [&](std::string_view name, int at, const Tensor& t) {
    if (at < first || at >= first + count) return;
    Inputs& in = inputs[static_cast<size_t>(at - first)];
    if (name == "attn_q") in.q = by_head(t, config_of(at).heads);
    if (name == "attn_k") in.k = by_head(t, config_of(at).kv_heads);
    if (name == "attn_v") in.v = by_head(t, config_of(at).kv_heads);
  };
  RefExec exec(options);
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<SequenceRows> sequences = {{0, static_cast<int32_t>(T), 0, -1}};
  forward_hidden(exec, model.transformer, {ids, positions, sequences});

  std::vector<ExplainedAttention> layers;
  for (int layer = first; layer < first + count; ++layer) {
    const AttentionConfig& c = config_of(layer);
    const Inputs& in = inputs[static_cast<size_t>(layer - first)];
    ExplainedAttention a;
    a.model = model.path.filename().string();
    a.layer = layer;
    for (size_t i = 0; i < ids.size(); ++i)
      a.tokens.push_back(shown_token(tokenizer.token_bytes(ids[i], i == 0, true)));
    a.key_tokens = a.tokens;
    a.shape = {1, c.heads, c.kv_heads, T, T, c.head_size};
    a.scale = c.scale;
    a.steps = attention(in.q, in.k, in.v, a.shape, a.scale, AttentionView::causal);
    layers.push_back(std::move(a));
  }
  return layers;
}

HeatMap head_map(const ExplainedAttention& a, int64_t head, std::string title) {
  const AttentionShape& s = a.shape;
  const auto first = a.steps.weights.begin() + head * s.queries * s.keys;
  return {std::move(title), {first, first + s.queries * s.keys}};
}

}  // namespace

ExplainedAttention explain_model_attention(const Model& model, const Tokenizer& tokenizer,
                                           const std::string& text, int layer) {
  const int layers = model.config.layers;
  const int chosen = layer < 0 ? layers + layer : layer;
  if (chosen < 0 || chosen >= layers)
    fail(ErrorCode::invalid_argument, "explain attention: layer {} of {}", layer, layers);
  return std::move(explain_layers(model, tokenizer, tokenizer.encode(text), chosen, 1).front());
}

std::vector<ExplainedAttention> explain_all_layers(const Model& model, const Tokenizer& tokenizer,
                                                   std::span<const int32_t> ids) {
  return explain_layers(model, tokenizer, ids, 0, model.config.layers);
}

ExplainedAttention explain_random_attention(const std::string& text, const std::string& keys,
                                            int heads, int head_size, uint64_t seed) {
  const auto words_of = [](const std::string& line) {
    std::vector<std::string> out;
    std::istringstream words(line);
    for (std::string word; words >> word;) out.push_back(word);
    check_tokens(out.size());
    return out;
  };
  ExplainedAttention a;
  a.tokens = words_of(text);
  const bool cross = !keys.empty();
  a.key_tokens = cross ? words_of(keys) : a.tokens;
  const auto queries = static_cast<int64_t>(a.tokens.size());
  const auto seen = static_cast<int64_t>(a.key_tokens.size());
  const int64_t D = int64_t{heads} * head_size;
  a.model = fmt::format("random projections, seed {}", seed);
  a.shape = {1, heads, heads, queries, seen, head_size};
  a.scale = 1 / std::sqrt(static_cast<double>(head_size));
  // [T, D] of the words of a text.
  const auto vectors = [&](int64_t T, uint32_t stream) {
    return random_numbers(static_cast<size_t>(T * D), seed, stream);
  };
  const std::vector<double> x = vectors(queries, 0), y = cross ? vectors(seen, 4) : x;
  // [heads, T, size] of vectors times a random matrix.
  const auto project = [&](const std::vector<double>& from, uint32_t stream) {
    const std::vector<double> w = random_numbers(static_cast<size_t>(D * D), seed, stream);
    const auto T = static_cast<int64_t>(from.size()) / D;
    std::vector<double> out;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < T; ++t)
        for (int64_t d = 0; d < head_size; ++d) {
          double sum = 0;
          for (int64_t i = 0; i < D; ++i)
            sum += from[static_cast<size_t>(t * D + i)] *
                   w[static_cast<size_t>((h * head_size + d) * D + i)];
          out.push_back(sum / std::sqrt(static_cast<double>(D)));
        }
    return out;
  };
  a.steps = attention(project(x, 1), project(y, 2), project(y, 3), a.shape, a.scale,
                      cross ? AttentionView::full : AttentionView::causal);
  return a;
}

std::vector<AttentionLink> strongest_links(const ExplainedAttention& a, size_t count) {
  std::vector<AttentionLink> links;
  const bool self = a.key_tokens == a.tokens;
  for (int64_t h = 0; h < a.shape.heads; ++h)
    for (int64_t i = 0; i < a.shape.queries; ++i) {
      AttentionLink best{h, i, -1, -1};
      // Tokens rest on the first one when they look for nothing.
      for (int64_t t = self ? 1 : 0; t < a.shape.keys; ++t)
        if (!(self && t == i) && weight_at(a, h, i, t) > best.weight)
          best = {h, i, t, weight_at(a, h, i, t)};
      if (best.key >= 0 && best.weight > 0) links.push_back(best);
    }
  std::stable_sort(links.begin(), links.end(),
                   [](const auto& x, const auto& y) { return x.weight > y.weight; });
  if (links.size() > count) links.resize(count);
  return links;
}

std::string attention_text(const ExplainedAttention& a, int64_t head) {
  const AttentionShape& s = a.shape;
  std::string out = fmt::format("{}, layer {}, head {} of {}\n\n", a.model, a.layer, head, s.heads);
  out += fmt::format("q [{}, {}, {}]   k, v [{}, {}, {}]   (heads, tokens, head size)\n\n", s.heads,
                     s.queries, s.head_size, s.kv_heads, s.keys, s.head_size);
  out += "1. scores = q k^T\n" + matrix_text(a, a.steps.scores, head);
  out += fmt::format("\n2. times {:.4f}; what is not seen is left out\n", a.scale) +
         matrix_text(a, a.steps.scaled, head);
  out += "\n3. weights = softmax of each row, which sums to 1\n" +
         matrix_text(a, a.steps.weights, head);
  out += fmt::format("\n4. out = weights v: [{}, {}, {}]\n\nStrongest links:\n", s.heads, s.queries,
                     s.head_size);
  for (const AttentionLink& l : strongest_links(a, 10))
    out += fmt::format("  {} -> {} {:.2f}  (head {})\n", a.tokens[static_cast<size_t>(l.query)],
                       a.key_tokens[static_cast<size_t>(l.key)], l.weight, l.head);
  return out;
}

void write_attention_pictures(const ExplainedAttention& a, int64_t head,
                              const std::filesystem::path& folder) {
  const AttentionShape& s = a.shape;
  const auto map_of = [&](int64_t h) { return head_map(a, h, fmt::format("head {}", h)); };
  HeatMapPage page;
  page.title = fmt::format("Attention, layer {}", a.layer);
  page.subtitle = a.model + ": rows look at columns";
  page.row_labels = a.tokens;
  page.column_labels = a.key_tokens;
  page.maps = {map_of(head)};
  page.annotate = std::max(s.queries, s.keys) <= 24;
  write_heat_maps(page, folder / "attention_heatmap.png");
  page.maps.clear();
  page.annotate = false;
  for (int64_t h = 0; h < std::min<int64_t>(s.heads, 64); ++h) page.maps.push_back(map_of(h));
  write_heat_maps(page, folder / "multihead_comparison.png");
  ReplaceFile file(folder / "attention.html");
  file.write(fmt::format(
      "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Attention</title>\n"
      "<style>body{{font:16px sans-serif;margin:2em;max-width:80em}}img{{max-width:100%}}</style>\n"
      "<h1>Attention, layer {}</h1>\n<pre>{}</pre>\n<img src=\"attention_heatmap.png\" alt=\"one "
      "head\">\n<h2>All heads</h2>\n<img src=\"multihead_comparison.png\" alt=\"all heads\">\n",
      a.layer, html_text(attention_text(a, head))));
  file.commit();
}

void write_attention_overview(const std::vector<ExplainedAttention>& layers,
                              const std::string& title, const std::filesystem::path& file) {
  constexpr size_t kMostMaps = 64;
  std::vector<std::pair<const ExplainedAttention*, int64_t>> heads;
  for (const ExplainedAttention& a : layers)
    for (int64_t h = 0; h < a.shape.heads; ++h) heads.emplace_back(&a, h);
  if (heads.empty()) fail(ErrorCode::invalid_argument, "{}: no heads to draw", file.string());
  HeatMapPage page;
  page.title = title;
  page.subtitle = "rows look at columns";
  page.row_labels = page.column_labels = layers.front().tokens;
  const size_t shown = std::min(heads.size(), kMostMaps);
  for (size_t i = 0; i < shown; ++i) {
    const auto& [a, h] = heads[i * heads.size() / shown];
    page.maps.push_back(head_map(*a, h, fmt::format("layer {}, head {}", a->layer, h)));
  }
  write_heat_maps(page, file);
}

}  // namespace strata
