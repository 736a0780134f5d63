#include "text/jinja/text_functions.h"

#include <algorithm>
#include <unordered_set>

#include "base/utf8.h"
#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace strata::jinja {
namespace {

size_t previous_character(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
  return begin;
}

bool is_blank_at(std::string_view text, size_t offset) {
  return is_python_space(decode_utf8(text.substr(offset)).code_point);
}

}  // namespace

MarkedText strip(const MarkedText& text, Side side, const std::string_view* characters) {
  const std::string_view bytes = text.bytes();
  std::unordered_set<std::string_view> set;
  for (size_t i = 0; characters != nullptr && i < characters->size();) {
    const size_t size = utf8_length((*characters)[i]);
    set.insert(characters->substr(i, size));
    i += size;
  }
  const auto goes = [&](size_t begin, size_t end) {
    if (characters == nullptr) return is_blank_at(bytes, begin);
    return set.count(bytes.substr(begin, end - begin)) != 0;
  };
  size_t begin = 0, end = bytes.size();
  while (side != Side::right && begin < end) {
    const size_t next = begin + utf8_length(bytes[begin]);
    if (!goes(begin, next)) break;
    begin = next;
  }
  while (side != Side::left && begin < end) {
    const size_t last = previous_character(bytes, end);
    if (!goes(last, end)) break;
    end = last;
  }
  return text.slice(begin, end);
}

std::vector<MarkedText> split_blanks(const MarkedText& text, int64_t limit) {
  const std::string_view bytes = text.bytes();
  std::vector<MarkedText> parts;
  size_t p = 0;
  const auto skip = [&](bool blanks) {
    while (p < bytes.size() && is_blank_at(bytes, p) == blanks) p += utf8_length(bytes[p]);
  };
  while (true) {
    skip(true);
    if (p >= bytes.size()) break;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.push_back(strip(text.slice(p, bytes.size()), Side::right, nullptr));
      break;
    }
    const size_t begin = p;
    skip(false);
    parts.push_back(text.slice(begin, p));
  }
  return parts;
}

std::vector<MarkedText> rsplit_blanks(const MarkedText& text, int64_t limit) {
  const std::string_view bytes = text.bytes();
  std::vector<MarkedText> parts;
  size_t end = bytes.size();
  const auto skip = [&](bool blanks) {
    while (end > 0) {
      const size_t begin = previous_character(bytes, end);
      if (is_blank_at(bytes, begin) != blanks) break;
      end = begin;
    }
  };
  while (true) {
    skip(true);
    if (end == 0) break;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.push_back(strip(text.slice(0, end), Side::left, nullptr));
      break;
    }
    const size_t stop = end;
    skip(false);
    parts.push_back(text.slice(end, stop));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<MarkedText> split(const MarkedText& text, std::string_view separator, int64_t limit) {
  if (separator.empty()) fail_render("empty separator");
  std::vector<MarkedText> parts;
  size_t begin = 0;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t found = text.bytes().find(separator, begin);
    if (found == std::string::npos) break;
    parts.push_back(text.slice(begin, found));
    begin = found + separator.size();
  }
  parts.push_back(text.slice(begin, text.size()));
  return parts;
}

std::vector<MarkedText> rsplit(const MarkedText& text, std::string_view separator, int64_t limit) {
  if (separator.empty()) fail_render("empty separator");
  std::vector<MarkedText> parts;
  size_t end = text.size();
  while ((limit < 0 || static_cast<int64_t>(parts.size()) < limit) && end >= separator.size()) {
    const size_t found = text.bytes().rfind(separator, end - separator.size());
    if (found == std::string::npos) break;
    parts.push_back(text.slice(found + separator.size(), end));
    end = found;
  }
  parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  const std::string_view bytes = text.bytes();
  std::vector<MarkedText> lines;
  size_t begin = 0, p = 0;
  while (p < bytes.size()) {
    const Utf8Step step = decode_utf8(bytes.substr(p));
    const size_t end = p;
    p += static_cast<size_t>(step.length);
    if (!is_line_break(step.code_point)) continue;
    if (step.code_point == '\r' && p < bytes.size() && bytes[p] == '\n') ++p;
    lines.push_back(text.slice(begin, keep_ends ? p : end));
    begin = p;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

MarkedText replace(const MarkedText& text, std::string_view old, const MarkedText& replacement,
                   int64_t limit, size_t max_bytes) {
  MarkedText out({}, text.overall_origin());
  const auto put = [&](const MarkedText& part, size_t begin, size_t end) {
    if (out.size() + (end - begin) > max_bytes) {
      fail_render("rendering needs more bytes of text than a chat template may use");
    }
    out.append_slice(part, begin, end);
  };
  int64_t done = 0;
  size_t begin = 0;
  if (old.empty()) {
    while (limit < 0 || done < limit) {
      put(replacement, 0, replacement.size());
      ++done;
      if (begin >= text.size()) break;
      const size_t next = begin + utf8_length(text.bytes()[begin]);
      put(text, begin, next);
      begin = next;
    }
  } else {
    while (limit < 0 || done < limit) {
      const size_t found = text.bytes().find(old, begin);
      if (found == std::string::npos) break;
      put(text, begin, found);
      put(replacement, 0, replacement.size());
      begin = found + old.size();
      ++done;
    }
  }
  put(text, begin, text.size());
  return out;
}

int64_t count(std::string_view text, std::string_view part) {
  if (part.empty()) return count_code_points(text) + 1;
  int64_t found = 0;
  for (size_t p = text.find(part); p != text.npos; p = text.find(part, p + part.size())) ++found;
  return found;
}

}  // namespace strata::jinja
