#include "text/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/byte_alphabet.h"
#include "text/pair_table.h"
#include "text/word_splitter.h"

namespace strata {
namespace {

using Pair = std::pair<int32_t, int32_t>;

// Symbols [first, first + length) of all words' together.
struct Word {
  size_t first = 0;
  size_t length = 0;
  int64_t count = 0;
};

// A pair to be merged in some words. Its count may be old: merges since then have changed it.
struct Candidate {
  Pair pair;
  int64_t count = 0;
  std::vector<int32_t> words;
};
struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

// Words in which pairs stand, each once: they come in rising order.
class Places {
 public:
  struct Place {
    Pair pair;
    std::vector<int32_t> words;
  };
  void add(const Pair& pair, int32_t word) {
    int32_t& number = numbers_[pair];  // 0: none yet
    if (number == 0) {
      places_.push_back({pair, {}});
      number = static_cast<int32_t>(places_.size());
    }
    std::vector<int32_t>& words = places_[static_cast<size_t>(number) - 1].words;
    if (words.empty() || words.back() != word) words.push_back(word);
  }
  // Hands over what it has.
  std::vector<Place> take() {
    // A table that was once large would be cleared slowly for ever.
    if (places_.size() > 4096)
      numbers_ = {};
    else
      numbers_.clear();
    return std::exchange(places_, {});
  }

 private:
  PairTable<int32_t> numbers_;
  std::vector<Place> places_;
};

class Merger {
 public:
  Merger(std::vector<Word> words, std::vector<int32_t> symbols, BpeTrainer::Result& result)
      : words_(std::move(words)), symbols_(std::move(symbols)), result_(result) {
    for (size_t id = 0; id < result_.pieces.size(); ++id)
      ids_[result_.pieces[id]] = static_cast<int32_t>(id);
  }

  void run(const BpeTrainerOptions& options, const std::function<void(double)>& progress) {
    count_pairs();
    const auto first = static_cast<double>(result_.pieces.size());
    const auto wanted = static_cast<size_t>(options.vocabulary);
    while (result_.pieces.size() < wanted && !queue_.empty()) {
      Candidate top = std::move(const_cast<Candidate&>(queue_.top()));
      queue_.pop();
      const int64_t count = counts_[top.pair];
      if (top.count != count) {
        top.count = count;
        queue_.push(std::move(top));
        continue;
      }
      if (count < 1 || count < options.least_count) break;
      merge(top);
      if (progress && result_.merges.size() % 64 == 0)
        progress((static_cast<double>(result_.pieces.size()) - first) /
                 (static_cast<double>(wanted) - first));
    }
  }

 private:
  void count_pairs() {
    for (size_t w = 0; w < words_.size(); ++w) {
      const int32_t* s = symbols_.data() + words_[w].first;
      for (size_t i = 0; i + 1 < words_[w].length; ++i) {
        counts_[{s[i], s[i + 1]}] += words_[w].count;
        places_.add({s[i], s[i + 1]}, static_cast<int32_t>(w));
      }
    }
    push_all();
  }

  void push_all() {
    for (Places::Place& place : places_.take()) {
      const int64_t count = counts_[place.pair];
      if (count > 0) queue_.push({place.pair, count, std::move(place.words)});
    }
  }

  void merge(const Candidate& top) {
    const std::string piece = result_.pieces[static_cast<size_t>(top.pair.first)] +
                              result_.pieces[static_cast<size_t>(top.pair.second)];
    // Two pairs can spell the same piece.
    const auto [known, fresh] = ids_.emplace(piece, static_cast<int32_t>(result_.pieces.size()));
    if (fresh) result_.pieces.push_back(piece);
    result_.merges.push_back(top.pair);
    for (const int32_t w : top.words)
      merge_in_word(words_[static_cast<size_t>(w)], w, top.pair, known->second);
    push_all();
  }

  void merge_in_word(Word& word, int32_t number, const Pair& pair, int32_t merged) {
    int32_t* s = symbols_.data() + word.first;
    const size_t length = word.length;
    const auto gone = [&](int32_t a, int32_t b) { counts_[{a, b}] -= word.count; };
    const auto come = [&](int32_t a, int32_t b) {
      counts_[{a, b}] += word.count;
      places_.add({a, b}, number);
    };
    size_t to = 0;
    for (size_t from = 0; from < length; ++from) {
      if (s[from] != pair.first || from + 1 == length || s[from + 1] != pair.second) {
        s[to++] = s[from];
        continue;
      }
      // The neighbour on the left may be what was merged just now.
      if (to > 0) {
        gone(s[to - 1], pair.first);
        come(s[to - 1], merged);
      }
      ++from;
      if (from + 1 < length) {
        gone(pair.second, s[from + 1]);
        come(merged, s[from + 1]);
      }
      s[to++] = merged;
    }
    word.length = to;
  }

  std::vector<Word> words_;
  std::vector<int32_t> symbols_;
  BpeTrainer::Result& result_;
  std::unordered_map<std::string, int32_t> ids_;
  PairTable<int64_t> counts_;
  Places places_;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue_;
};

}  // namespace

BpeTrainer::BpeTrainer(BpeTrainerOptions options) : options_(std::move(options)) {
  const auto least = static_cast<int64_t>(256 + options_.specials.size());
  if (options_.vocabulary < least || options_.vocabulary > int64_t{1} << 24)
    fail(ErrorCode::invalid_argument,
         "tokenizer train: the vocabulary is {}, wanted {} (256 bytes and {} special tokens) to {}",
         options_.vocabulary, least, options_.specials.size(), int64_t{1} << 24);
}

void BpeTrainer::add_text(std::string_view text) {
  const WordLength word_length = word_length_function(WordPattern::gpt2);
  while (!text.empty()) {
    const size_t line_end = text.find('\n');
    const size_t length = line_end == std::string_view::npos ? text.size() : line_end + 1;
    const char* p = text.data();
    const char* const end = p + length;
    while (p < end) {
      const size_t n = word_length(p, end);
      add_word({p, n}, 1);
      p += n;
    }
    text.remove_prefix(length);
  }
}

void BpeTrainer::add_word(std::string_view word, int64_t count) { counts_.add(word, count); }

BpeTrainer::Result BpeTrainer::train(const std::function<void(double)>& progress) {
  Result result;
  result.pieces = options_.specials;
  // The alphabet in order of its characters.
  std::array<int32_t, 256> id_of_byte{};
  std::vector<std::pair<std::string, int>> alphabet;
  for (int b = 0; b < 256; ++b)
    alphabet.emplace_back(byte_spelling(static_cast<unsigned char>(b)), b);
  std::sort(alphabet.begin(), alphabet.end());  // UTF-8 sorts as code points do
  for (const auto& [spelling, byte] : alphabet) {
    id_of_byte[static_cast<size_t>(byte)] = static_cast<int32_t>(result.pieces.size());
    result.pieces.push_back(spelling);
  }
  std::vector<Word> words;
  std::vector<int32_t> symbols;
  words.reserve(counts_.size());
  for (const WordCounts::Word& w : counts_.words()) {
    words.push_back({symbols.size(), w.text.size(), w.count});
    for (const char c : w.text) symbols.push_back(id_of_byte[static_cast<unsigned char>(c)]);
  }
  result.words = static_cast<int64_t>(words.size());
  counts_ = {};
  Merger(std::move(words), std::move(symbols), result).run(options_, progress);
  return result;
}

std::string bpe_tokenizer_json(const BpeTrainer::Result& trained,
                               const std::vector<std::string>& specials) {
  OrderedJson out;
  out["version"] = "1.0";
  out["truncation"] = nullptr;
  out["padding"] = nullptr;
  out["added_tokens"] = OrderedJson::array();
  for (size_t i = 0; i < specials.size(); ++i)
    out["added_tokens"].push_back({{"id", i},
                                   {"content", specials[i]},
                                   {"single_word", false},
                                   {"lstrip", false},
                                   {"rstrip", false},
                                   {"normalized", false},
                                   {"special", true}});
  const OrderedJson byte_level = {{"type", "ByteLevel"},
                                  {"add_prefix_space", false},
                                  {"trim_offsets", true},
                                  {"use_regex", true}};
  out["normalizer"] = nullptr;
  out["pre_tokenizer"] = byte_level;
  out["post_processor"] = nullptr;
  out["decoder"] = byte_level;
  OrderedJson& model = out["model"];
  model["type"] = "BPE";
  model["dropout"] = nullptr;
  model["unk_token"] = nullptr;
  model["continuing_subword_prefix"] = nullptr;
  model["end_of_word_suffix"] = nullptr;
  model["fuse_unk"] = false;
  model["byte_fallback"] = false;
  model["ignore_merges"] = false;
  // Written by hand: an ordered object looks a key up in linear time.
  std::string text = out.dump(1);
  std::string rest = ",\n  \"vocab\": {";
  for (size_t id = 0; id < trained.pieces.size(); ++id)
    rest += fmt::format("{}\n   {}: {}", id == 0 ? "" : ",", to_json_text(Json(trained.pieces[id])),
                        id);
  rest += "\n  },\n  \"merges\": [";
  for (size_t i = 0; i < trained.merges.size(); ++i) {
    const auto piece = [&](int32_t id) {
      return to_json_text(Json(trained.pieces[static_cast<size_t>(id)]));
    };
    rest += fmt::format("{}\n   [{}, {}]", i == 0 ? "" : ",", piece(trained.merges[i].first),
                        piece(trained.merges[i].second));
  }
  rest += "\n  ]";
  // Behind the model's last member, before the two closing braces.
  text.insert(text.rfind("\n }"), rest);
  return text + "\n";
}

}  // namespace strata
