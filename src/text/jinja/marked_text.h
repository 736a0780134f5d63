#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::jinja {

// Who wrote a byte or computed a value: the template (and the model's own bos/eos), or the request.
enum class Origin : uint8_t { user = 0, from_template = 1 };

// A value made of two parts is the template's only if both are.
inline Origin mix(Origin a, Origin b) {
  return a == Origin::user || b == Origin::user ? Origin::user : Origin::from_template;
}

// UTF-8 text in which each byte knows its origin. Stored as the origin of the first byte and the
// offsets at which it flips, so text of one origin costs no more than a std::string.
class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string bytes, Origin origin) : bytes_(std::move(bytes)), first_(origin) {}

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // user if any byte is the user's; empty text has the origin it was made with.
  Origin overall_origin() const { return flips_.empty() ? first_ : Origin::user; }

  void append(std::string_view bytes, Origin origin);
  void append(const MarkedText& other) { append_slice(other, 0, other.size()); }
  // other's bytes [begin, end). `other` may not be *this.
  void append_slice(const MarkedText& other, size_t begin, size_t end);
  MarkedText slice(size_t begin, size_t end) const;

  // 1 for each byte of the template, 0 for each of the user.
  std::vector<uint8_t> template_mask() const;

 private:
  Origin origin_at(size_t flips_before) const {
    const bool flipped = flips_before % 2 != 0;
    return (first_ == Origin::from_template) != flipped ? Origin::from_template : Origin::user;
  }

  std::string bytes_;
  std::vector<size_t> flips_;  // rising, each in (0, size())
  Origin first_ = Origin::from_template;
};

}  // namespace strata::jinja
