#pragma once

#include <deque>
#include <functional>
#include <string_view>

#include "text/jinja/interpreter.h"

namespace strata::jinja {

// The `loop` variable, and the walk over the items behind it. Items are fetched no earlier than the
// template asks for them, because the condition of a loop may depend on what its body did.
class LoopObject : public CallableObject {
 public:
  struct Source {
    std::function<bool(Value&)> next;
    int64_t length = -1;  // -1: not known before the end
    Origin origin = Origin::from_template;
  };
  LoopObject(Source source, int64_t depth, std::function<Value(const Value&)> recurse)
      : source_(std::move(source)), depth_(depth), recurse_(std::move(recurse)) {}

  // The next turn of the loop; false at the end.
  bool advance(Value& item);
  // The loop is over: what a template kept of it gives no more items.
  void finish();

  Value call(Runtime& runtime, Arguments& arguments) override;  // loop(children)
  std::string describe() const override;
  Value attribute(Runtime& runtime, std::string_view name) override;
  std::string_view type_name() const override { return "LoopContext"; }

 private:
  bool has_next();
  int64_t length();

  Source source_;
  int64_t depth_;
  std::function<Value(const Value&)> recurse_;  // empty: the loop is not recursive
  std::deque<Value> ahead_;                     // fetched, not yet given out
  Value previous_ = absent_value(), current_ = absent_value(), last_changed_ = absent_value();
  int64_t index0_ = -1;
};

}  // namespace strata::jinja
