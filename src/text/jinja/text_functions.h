#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/jinja/marked_text.h"

// Python's str methods that give parts of a text: each part keeps the origin of its bytes. Used by
// the methods and by the filters of the same names.
namespace strata::jinja {

enum class Side : uint8_t { left, right, both };

// characters == nullptr: blanks.
MarkedText strip(const MarkedText& text, Side side, const std::string_view* characters);
// limit < 0: no limit.
std::vector<MarkedText> split_blanks(const MarkedText& text, int64_t limit);
std::vector<MarkedText> rsplit_blanks(const MarkedText& text, int64_t limit);
std::vector<MarkedText> split(const MarkedText& text, std::string_view separator, int64_t limit);
std::vector<MarkedText> rsplit(const MarkedText& text, std::string_view separator, int64_t limit);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);
MarkedText replace(const MarkedText& text, std::string_view old, const MarkedText& replacement,
                   int64_t limit, size_t max_bytes);
// Occurrences without overlap; the empty text occurs between all characters.
int64_t count(std::string_view text, std::string_view part);

}  // namespace strata::jinja
