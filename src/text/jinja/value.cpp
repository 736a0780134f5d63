#include "text/jinja/value.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

namespace strata::jinja {
namespace {

// Below this many entries a walk is faster than a hash table.
constexpr size_t kSmallDict = 8;
// Tuples as keys: a template can share their parts so that they are huge when written out.
constexpr int kMaxKeyDepth = 20;
constexpr size_t kMaxTupleKeyBytes = 1 << 16;
[[noreturn]] void fail_large_key() {
  fail(ErrorCode::invalid_argument, "a tuple is too large for a key");
}

}  // namespace

const StringObject& Value::string() const { return static_cast<const StringObject&>(*object); }
const MarkedText& Value::text() const { return string().text; }
const std::vector<Value>& Value::items() const {
  return static_cast<const ListObject&>(*object).items;
}
const DictObject& Value::dict() const { return static_cast<const DictObject&>(*object); }
const ViewObject& Value::view() const { return static_cast<const ViewObject&>(*object); }
const RangeObject& Value::range() const { return static_cast<const RangeObject&>(*object); }

const UndefinedObject& Value::undefined() const {
  return static_cast<const UndefinedObject&>(*object);
}
IteratorObject& Value::iterator() const { return static_cast<IteratorObject&>(*object); }
NamespaceObject& Value::name_space() const { return static_cast<NamespaceObject&>(*object); }
CallableObject& Value::callable() const { return static_cast<CallableObject&>(*object); }

Value absent_value() {
  Value v;
  v.kind = Kind::absent;
  return v;
}

Value none_value() {
  Value v;
  v.kind = Kind::none;
  return v;
}

Value bool_value(bool value, Origin origin) {
  Value v;
  v.kind = Kind::boolean;
  v.origin = origin;
  v.boolean = value;
  return v;
}

Value int_value(int64_t value, Origin origin) {
  Value v;
  v.kind = Kind::integer;
  v.origin = origin;
  v.integer = value;
  return v;
}

Value real_value(double value, Origin origin) {
  Value v;
  v.kind = Kind::real;
  v.origin = origin;
  v.real = value;
  return v;
}

StringObject::StringObject(MarkedText content)
    : text(std::move(content)), ascii(is_ascii(text.bytes())) {}

size_t DictObject::position(const Value& key) const {
  if (key.is(Kind::string)) return position(key.text().bytes());
  const std::string hashed = hash_key(key);
  if (entries_.size() > kSmallDict) return indexed_position(hashed);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Value& name = entries_[i].first;
    if (!name.is(Kind::string) && hash_key(name) == hashed) return i;
  }
  return entries_.size();
}

size_t DictObject::position(std::string_view key) const {
  if (entries_.size() > kSmallDict) return indexed_position("s" + std::string(key));
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Value& name = entries_[i].first;
    if (name.is(Kind::string) && name.text().bytes() == key) return i;
  }
  return entries_.size();
}

size_t DictObject::indexed_position(const std::string& hashed) const {
  const auto found = index_.find(hashed);
  return found == index_.end() ? entries_.size() : found->second;
}

const Value* DictObject::find(const Value& key) const {
  const size_t i = position(key);
  return i < entries_.size() ? &entries_[i].second : nullptr;
}

const Value* DictObject::find(std::string_view key) const {
  const size_t i = position(key);
  return i < entries_.size() ? &entries_[i].second : nullptr;
}

void DictObject::set(const Value& key, const Value& value) {
  const size_t i = position(key);
  if (i < entries_.size()) {
    entries_[i].second = value;
    return;
  }
  std::string hashed = hash_key(key);
  entries_.emplace_back(key, value);
  if (entries_.size() == kSmallDict + 1) {
    for (size_t j = 0; j < i; ++j) index_.emplace(hash_key(entries_[j].first), j);
  }
  if (entries_.size() > kSmallDict) index_.emplace(std::move(hashed), i);
}

std::string hash_key(const Value& value, int depth) {
  switch (value.kind) {
    case Kind::none:
      return "0";
    case Kind::boolean:
    case Kind::integer:
      return fmt::format("n{}", value.as_integer());
    case Kind::real:
      if (std::floor(value.real) == value.real && std::fabs(value.real) < 9.0e18) {
        return fmt::format("n{}", static_cast<int64_t>(value.real));
      }
      return fmt::format("n{}", value.real);
    case Kind::string:
      return "s" + value.text().bytes();
    case Kind::tuple: {
      if (depth > kMaxKeyDepth) fail_large_key();
      std::string key = "t";
      for (const Value& item : value.items()) {
        const std::string part = hash_key(item, depth + 1);
        key += fmt::format("{}:{}", part.size(), part);
        if (key.size() > kMaxTupleKeyBytes) fail_large_key();
      }
      return key;
    }
    case Kind::list:
    case Kind::dict:
      fail(ErrorCode::invalid_argument, "unhashable type: '{}'", type_name(value));
    case Kind::undefined:
      return "u";
    default:
      return fmt::format("o{}", static_cast<const void*>(value.object));
  }
}

Value CallableObject::attribute(Runtime&, std::string_view) { return absent_value(); }

}  // namespace strata::jinja
