#include "text/jinja/loop.h"

#include "text/jinja/builtin.h"
#include "text/jinja/operations.h"

namespace strata::jinja {
namespace {

// loop.cycle and loop.changed.
class LoopMethod : public CallableObject {
 public:
  LoopMethod(std::string name, std::function<Value(Runtime&, Arguments&)> run)
      : name_(std::move(name)), run_(std::move(run)) {}
  Value call(Runtime& runtime, Arguments& arguments) override {
    if (!arguments.named.empty()) {
      fail_render("LoopContext.{}() got an unexpected keyword argument '{}'", name_,
                  arguments.named.front().first);
    }
    return run_(runtime, arguments);
  }
  std::string describe() const override { return "<bound method LoopContext." + name_ + ">"; }
  std::string_view type_name() const override { return "method"; }

 private:
  std::string name_;
  std::function<Value(Runtime&, Arguments&)> run_;
};

}  // namespace

bool LoopObject::advance(Value& item) {
  if (!has_next()) return false;
  previous_ = current_;
  current_ = item = ahead_.front();
  ahead_.pop_front();
  ++index0_;
  return true;
}

void LoopObject::finish() {
  source_.next = [](Value&) { return false; };
  recurse_ = nullptr;
}

bool LoopObject::has_next() {
  if (!ahead_.empty()) return true;
  Value item;
  if (!source_.next(item)) return false;
  ahead_.push_back(item);
  return true;
}

int64_t LoopObject::length() {
  if (source_.length < 0) {
    Value item;
    while (source_.next(item)) ahead_.push_back(item);
    source_.length = index0_ + 1 + static_cast<int64_t>(ahead_.size());
  }
  return source_.length;
}

Value LoopObject::call(Runtime&, Arguments& arguments) {
  if (!recurse_) {
    fail_render("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    fail_render("loop() takes exactly one argument");
  }
  return recurse_(arguments.positional[0]);
}

std::string LoopObject::describe() const {
  return fmt::format("<LoopContext {}/{}>", index0_ + 1, source_.length);
}

Value LoopObject::attribute(Runtime& runtime, std::string_view name) {
  if (name == "index") return int_value(index0_ + 1);
  if (name == "index0") return int_value(index0_);
  if (name == "first") return bool_value(index0_ == 0);
  if (name == "last") return bool_value(!has_next());
  if (name == "length") return int_value(length());
  if (name == "revindex") return int_value(length() - index0_);
  if (name == "revindex0") return int_value(length() - index0_ - 1);
  if (name == "depth") return int_value(depth_ + 1);
  if (name == "depth0") return int_value(depth_);
  if (name == "previtem") {
    return previous_.is(Kind::absent) ? runtime.undefined("there is no previous item") : previous_;
  }
  if (name == "nextitem") {
    return has_next() ? ahead_.front() : runtime.undefined("there is no next item");
  }
  const auto method = [&](auto run) {
    return runtime.object(Kind::callable,
                          runtime.heap().make<LoopMethod>(std::string(name), std::move(run)));
  };
  if (name == "cycle") {
    return method([this](Runtime&, Arguments& arguments) {
      if (arguments.positional.empty()) fail_render("no items for cycling given");
      const auto count = static_cast<int64_t>(arguments.positional.size());
      return arguments.positional[static_cast<size_t>(index0_ % count)];
    });
  }
  if (name == "changed") {
    return method([this](Runtime& run_time, Arguments& arguments) {
      const Value value = run_time.tuple(arguments.positional);
      if (!last_changed_.is(Kind::absent) && equals(run_time, last_changed_, value)) {
        return bool_value(false);
      }
      last_changed_ = value;
      return bool_value(true);
    });
  }
  return absent_value();
}

}  // namespace strata::jinja
