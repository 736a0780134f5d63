#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "text/normalizer.h"
#include "text/piece_decoder.h"
#include "text/pre_tokenizer.h"

namespace strata {

// A place in a tokenizer.json, for messages and look-ups: the value and where it lies
// ("dir/tokenizer.json: normalizer.normalizers[1]").
struct JsonPlace {
  simdjson::dom::element value;
  std::string where;

  bool is_null() const { return value.is_null(); }
  // Throws Error{data_corrupt} naming the place when the value is not what it should be.
  JsonPlace member(std::string_view key) const;  // missing: an error too
  bool has(std::string_view key) const;          // there and not null
  std::string_view string() const;
  std::string_view string(std::string_view key) const { return member(key).string(); }
  bool boolean(std::string_view key, bool fallback) const;
  int64_t integer() const;
  double number() const;
  // Calls f(JsonPlace) for each element of the array.
  template <typename F>
  void each(F&& f) const {
    simdjson::dom::array array;
    if (value.get_array().get(array)) wrong("an array");
    size_t i = 0;
    for (const simdjson::dom::element item : array)
      f(JsonPlace{item, where + "[" + std::to_string(i++) + "]"});
  }
  [[noreturn]] void wrong(std::string_view wanted) const;
  [[noreturn]] void unsupported(std::string_view what) const;
};

// The components of a tokenizer.json. An unknown type or an option that is not implemented is
// Error{unsupported} naming it; null components give nothing.
void add_json_normalizers(const JsonPlace& normalizer, NormalizerList& list);

struct JsonPreTokenizers {
  PreTokenizerList list;
  bool byte_level = false;  // words go to the model as bytes; ByteLevel came last
};
JsonPreTokenizers json_pre_tokenizers(const JsonPlace& pre_tokenizer);

struct JsonDecoder {
  DecodeStepList steps;
  bool byte_level = false;
};
JsonDecoder json_decoder(const JsonPlace& decoder);

}  // namespace strata
