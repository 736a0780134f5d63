#include "text/jinja/marked_text.h"

#include <algorithm>

namespace strata::jinja {

void MarkedText::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    first_ = origin;
  } else if (origin_at(flips_.size()) != origin) {
    flips_.push_back(bytes_.size());
  }
  bytes_.append(bytes);
}

void MarkedText::append_slice(const MarkedText& other, size_t begin, size_t end) {
  if (begin >= end) return;
  auto flip = std::upper_bound(other.flips_.begin(), other.flips_.end(), begin);
  size_t position = begin;
  while (position < end) {
    const size_t stop = flip == other.flips_.end() ? end : std::min(*flip, end);
    const auto flips_before = static_cast<size_t>(flip - other.flips_.begin());
    append(std::string_view(other.bytes_).substr(position, stop - position),
           other.origin_at(flips_before));
    position = stop;
    if (flip != other.flips_.end()) ++flip;
  }
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
  MarkedText part(std::string(), overall_origin());
  part.append_slice(*this, begin, end);
  return part;
}

std::vector<uint8_t> MarkedText::template_mask() const {
  std::vector<uint8_t> mask(bytes_.size());
  size_t begin = 0;
  for (size_t i = 0; i <= flips_.size(); ++i) {
    const size_t end = i < flips_.size() ? flips_[i] : bytes_.size();
    std::fill(mask.begin() + static_cast<std::ptrdiff_t>(begin),
              mask.begin() + static_cast<std::ptrdiff_t>(end), static_cast<uint8_t>(origin_at(i)));
    begin = end;
  }
  return mask;
}

}  // namespace strata::jinja
