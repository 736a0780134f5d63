#include <string>
#include <utility>

#include "text/json_components.h"

namespace strata {
namespace {

// Decoding goes token by token here (a stream cannot look back), so what a decoder does to the
// joined text is only taken where it means the same: stripping the front of the whole.
struct Builder {
  JsonDecoder out;
  bool fused = false;

  void add(const JsonPlace& place) {
    if (place.is_null()) return;
    const std::string_view type = place.string("type");
    if (type == "Sequence") {
      place.member("decoders").each([&](const JsonPlace& p) { add(p); });
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Strip") {
      add_strip(place);
    } else if (fused) {
      place.unsupported("decoder '" + std::string(type) + "' behind Fuse");
    } else if (type == "ByteLevel") {
      out.steps.push_back(byte_level_decode_step());
      out.byte_level = true;
    } else if (type == "ByteFallback") {
      out.steps.push_back(byte_fallback_decode_step());
    } else if (type == "Replace") {
      const JsonPlace pattern = place.member("pattern");
      if (!pattern.has("String")) pattern.unsupported("a regular expression in a decoder");
      std::string from(pattern.string("String"));
      if (from.empty()) pattern.wrong("a pattern that is not empty");
      out.steps.push_back(
          replace_decode_step(std::move(from), std::string(place.string("content"))));
    } else if (type == "Metaspace") {
      std::string mark(place.string("replacement"));
      if (mark.empty()) place.member("replacement").wrong("a character");
      const bool never = place.has("prepend_scheme") ? place.string("prepend_scheme") == "never"
                                                     : !place.boolean("add_prefix_space", true);
      if (!never) out.steps.push_back(strip_front_decode_step(mark, 1, true));
      out.steps.push_back(replace_decode_step(std::move(mark), " "));
    } else if (type == "WordPiece") {
      out.steps.push_back(word_piece_decode_step(std::string(place.string("prefix")),
                                                 place.boolean("cleanup", true)));
    } else {
      place.unsupported("decoder '" + std::string(type) + "'");
    }
  }

  void add_strip(const JsonPlace& place) {
    const int64_t start = place.member("start").integer();
    const int64_t stop = place.member("stop").integer();
    std::string content(place.string("content"));
    if (content.empty()) place.member("content").wrong("a character");
    if (start < 0) place.member("start").wrong("0 or more");
    if (stop != 0) place.unsupported("a decoder that strips the end");
    out.steps.push_back(
        strip_front_decode_step(std::move(content), static_cast<size_t>(start), fused));
  }
};

}  // namespace

JsonDecoder json_decoder(const JsonPlace& decoder) {
  Builder builder;
  builder.add(decoder);
  return std::move(builder.out);
}

}  // namespace strata
