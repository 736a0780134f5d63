#include "text/jinja/json_value.h"

#include <limits>

#include "base/utf8.h"

namespace strata::jinja {
namespace {

constexpr int kMaxDepth = 200;

Value text_value(Runtime& runtime, const std::string& text) {
  if (!is_valid_utf8(text)) fail_render("a text of the request is no well-formed UTF-8");
  return runtime.string(text, Origin::user);
}

Value value_at(Runtime& runtime, const OrderedJson& json, int depth) {
  if (depth > kMaxDepth) fail_render("the request is nested deeper than {}", kMaxDepth);
  runtime.charge(1);
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return bool_value(json.get<bool>(), Origin::user);
    case OrderedJson::value_t::number_integer:
      return int_value(json.get<int64_t>(), Origin::user);
    case OrderedJson::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        fail_render("the integer {} of the request needs more than 64 bits with sign", number);
      }
      return int_value(static_cast<int64_t>(number), Origin::user);
    }
    case OrderedJson::value_t::number_float:
      return real_value(json.get<double>(), Origin::user);
    case OrderedJson::value_t::string:
      return text_value(runtime, json.get_ref<const std::string&>());
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const OrderedJson& item : json) items.push_back(value_at(runtime, item, depth + 1));
      return runtime.list(std::move(items), Origin::user);
    }
    case OrderedJson::value_t::object: {
      auto* dict = runtime.heap().make<DictObject>();
      for (const auto& [key, item] : json.items()) {
        dict->set(text_value(runtime, key), value_at(runtime, item, depth + 1));
      }
      return runtime.object(Kind::dict, dict, Origin::user);
    }
    default: {
      Value none = none_value();
      none.origin = Origin::user;
      return none;
    }
  }
}

}  // namespace

Value json_value(Runtime& runtime, const OrderedJson& json) { return value_at(runtime, json, 0); }

}  // namespace strata::jinja
