#include <optional>
#include <string>
#include <utility>

#include "text/json_components.h"
#include "text/text_splits.h"

namespace strata {
namespace {

// Patterns of public tokenizers that have a hand-written splitter.
struct KnownPattern {
  std::string_view regex;
  WordPattern pattern;
};
constexpr KnownPattern kKnownPatterns[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     WordPattern::gpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     WordPattern::llama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     WordPattern::qwen2},
};

SplitBehavior behavior_of(const JsonPlace& place) {
  const std::string_view name = place.string();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  place.unsupported("split behavior '" + std::string(name) + "'");
}

std::unique_ptr<PreTokenizer> split_of(const JsonPlace& place) {
  const JsonPlace pattern = place.member("pattern");
  const SplitBehavior behavior = behavior_of(place.member("behavior"));
  const bool invert = place.boolean("invert", false);
  if (pattern.has("Regex")) {
    const std::string_view regex = pattern.string("Regex");
    // These patterns match all of a text, so what is done with the gaps does not matter.
    if (behavior == SplitBehavior::isolated || (behavior == SplitBehavior::removed && invert))
      for (const KnownPattern& known : kKnownPatterns)
        if (known.regex == regex) return pattern_pre_tokenizer(known.pattern);
    return split_pre_tokenizer(regex_finder(regex), behavior, invert);
  }
  std::string text(pattern.string("String"));
  if (text.empty()) pattern.wrong("a pattern that is not empty");
  return split_pre_tokenizer(string_finder(std::move(text)), behavior, invert);
}

std::unique_ptr<PreTokenizer> metaspace_of(const JsonPlace& place) {
  MetaspacePrepend prepend = MetaspacePrepend::always;
  if (place.has("prepend_scheme")) {
    const std::string_view scheme = place.string("prepend_scheme");
    if (scheme == "first")
      prepend = MetaspacePrepend::first;
    else if (scheme == "never")
      prepend = MetaspacePrepend::never;
    else if (scheme != "always")
      place.member("prepend_scheme").wrong("always, first or never");
  } else if (!place.boolean("add_prefix_space", true)) {
    prepend = MetaspacePrepend::never;
  }
  std::string mark(place.string("replacement"));
  if (mark.empty()) place.member("replacement").wrong("a character");
  return metaspace_pre_tokenizer(std::move(mark), prepend, place.boolean("split", true));
}

void add(const JsonPlace& place, JsonPreTokenizers& out) {
  if (place.is_null()) return;
  const std::string_view type = place.string("type");
  if (type == "Sequence") {
    place.member("pretokenizers").each([&](const JsonPlace& p) { add(p, out); });
    return;
  }
  if (out.byte_level) place.unsupported("'" + std::string(type) + "' behind ByteLevel");
  const auto split = [&](bool (*is_match)(char32_t), SplitBehavior behavior) {
    out.list.push_back(split_pre_tokenizer(character_finder(is_match), behavior, false));
  };
  if (type == "ByteLevel") {
    if (place.boolean("add_prefix_space", true)) out.list.push_back(prefix_space_pre_tokenizer());
    if (place.boolean("use_regex", true))
      out.list.push_back(pattern_pre_tokenizer(WordPattern::gpt2));
    out.byte_level = true;
  } else if (type == "Split") {
    out.list.push_back(split_of(place));
  } else if (type == "Metaspace") {
    out.list.push_back(metaspace_of(place));
  } else if (type == "Whitespace") {
    out.list.push_back(split_pre_tokenizer(word_run_finder(), SplitBehavior::removed, true));
  } else if (type == "WhitespaceSplit") {
    split(is_white_space, SplitBehavior::removed);
  } else if (type == "Digits") {
    split(is_number, place.boolean("individual_digits", false) ? SplitBehavior::isolated
                                                               : SplitBehavior::contiguous);
  } else if (type == "Punctuation") {
    split(is_punctuation,
          place.has("behavior") ? behavior_of(place.member("behavior")) : SplitBehavior::isolated);
  } else if (type == "BertPreTokenizer") {
    split(is_white_space, SplitBehavior::removed);
    split(is_punctuation, SplitBehavior::isolated);
  } else {
    place.unsupported("pre-tokenizer '" + std::string(type) + "'");
  }
}

bool is_individual_digits(const JsonPlace& place) {
  return place.string("type") == "Digits" && place.boolean("individual_digits", false);
}

// Digits one by one, then GPT-2's pattern on the bytes: the hand-written smollm splitter.
bool is_smollm(const JsonPlace& place) {
  if (place.is_null() || place.string("type") != "Sequence") return false;
  int index = 0;
  bool matches = true;
  place.member("pretokenizers").each([&](const JsonPlace& p) {
    if (index == 0) matches &= is_individual_digits(p);
    if (index == 1)
      matches &= p.string("type") == "ByteLevel" && !p.boolean("add_prefix_space", true) &&
                 p.boolean("use_regex", true);
    ++index;
  });
  return matches && index == 2;
}

}  // namespace

JsonPreTokenizers json_pre_tokenizers(const JsonPlace& pre_tokenizer) {
  JsonPreTokenizers out;
  if (is_smollm(pre_tokenizer)) {
    out.list.push_back(pattern_pre_tokenizer(WordPattern::smollm));
    out.byte_level = true;
    return out;
  }
  add(pre_tokenizer, out);
  return out;
}

}  // namespace strata
