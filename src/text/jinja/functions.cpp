#include "text/jinja/functions.h"

#include <algorithm>
#include <ctime>
#include <memory>

#include "text/jinja/builtin.h"
#include "text/jinja/operations.h"

// The functions that templates find in their globals.
namespace strata::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // of jinja2's sandbox

Value function_range(Runtime& runtime, const Bound& a) {
  int64_t start = 0, stop = 0, step = 1;
  if (a.has(1)) {
    start = integer_argument(a[0], "range");
    stop = integer_argument(a[1], "range");
    if (a.has(2)) step = integer_argument(a[2], "range");
  } else {
    stop = integer_argument(a[0], "range");
  }
  if (step == 0) fail_render("range() arg 3 must not be zero");
  // In long double the difference of two int64 does not overflow.
  const long double span = static_cast<long double>(stop) - start;
  const long double turns = span / step;
  if (turns > kMaxRange) {
    fail_render("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  }
  int64_t count = turns <= 0 ? 0 : static_cast<int64_t>(turns);
  if (turns > 0 && static_cast<long double>(count) < turns) ++count;
  if (count > kMaxRange) {
    fail_render("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  }
  Origin origin = a[0].origin;
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (a.has(i)) origin = mix(origin, a[i].origin);
  }
  RangeObject range;
  range.start = start;
  range.stop = stop;
  range.step = step;
  range.length = count;
  return runtime.range(range, origin);
}

// What dict(...) and namespace(...) share: a mapping or pairs, then keywords.
void fill(Runtime& runtime, const Bound& a, DictObject& dict) {
  if (a.has(0)) {
    if (a[0].is(Kind::dict)) runtime.charge(length(a[0]));
    if (a[0].is(Kind::dict)) {
      for (const auto& [key, value] : a[0].dict().entries()) dict.set(key, value);
    } else {
      for (const Value& pair : collect(runtime, a[0])) {
        const std::vector<Value> both = collect(runtime, pair);
        if (both.size() != 2) {
          fail_render("dictionary update sequence element has length {}; 2 is required",
                      both.size());
        }
        dict.set(both[0], both[1]);
      }
    }
  }
  for (const auto& [name, value] : a.rest_named) {
    dict.set(runtime.string(name, a.names_origin), value);
  }
}

Value function_dict(Runtime& runtime, const Bound& a) {
  auto* dict = runtime.heap().make<DictObject>();
  fill(runtime, a, *dict);
  return runtime.object(Kind::dict, dict, a.has(0) ? a[0].origin : Origin::from_template);
}

Value function_namespace(Runtime& runtime, const Bound& a) {
  auto* space = runtime.heap().make<NamespaceObject>();
  fill(runtime, a, space->attributes);
  for (const auto& [name, value] : space->attributes.entries()) {
    if (name.is(Kind::string) && !name.text().empty() && name.text().bytes()[0] == '_') {
      fail_render("cannot store underscore-prefixed attribute '{}' on a namespace",
                  name.text().bytes());
    }
  }
  return runtime.object(Kind::name_space, space);
}

Value function_raise_exception(Runtime& runtime, const Bound& a) {
  throw RaisedByTemplate(to_text(runtime, a[0]).bytes());
}

Value function_strftime_now(Runtime& runtime, const Bound& a) {
  const MarkedText& format = text_argument(a[0], "strftime_now");
  if (format.size() > 10'000) fail_render("strftime_now: the format is too long");
  return runtime.string(format_time(runtime.unix_time(), format.bytes()), a[0].origin);
}

// cycler(...): gives its items in turn.
class Cycler : public CallableObject {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  Value call(Runtime&, Arguments&) override { fail_render("'Cycler' object is not callable"); }
  std::string describe() const override { return "<Cycler object>"; }
  std::string_view type_name() const override { return "Cycler"; }
  Value attribute(Runtime& runtime, std::string_view name) override;

 private:
  friend class CyclerMethod;
  std::vector<Value> items_;
  size_t position_ = 0;
};

class CyclerMethod : public CallableObject {
 public:
  CyclerMethod(Cycler& cycler, bool reset) : cycler_(cycler), reset_(reset) {}
  Value call(Runtime&, Arguments& arguments) override {
    if (!arguments.positional.empty() || !arguments.named.empty()) {
      fail_render("Cycler.{}() takes no arguments", reset_ ? "reset" : "next");
    }
    if (reset_) {
      cycler_.position_ = 0;
      return none_value();
    }
    const Value item = cycler_.items_[cycler_.position_];
    cycler_.position_ = (cycler_.position_ + 1) % cycler_.items_.size();
    return item;
  }
  std::string describe() const override { return "<bound method of Cycler>"; }
  std::string_view type_name() const override { return "method"; }

 private:
  Cycler& cycler_;
  bool reset_;
};

Value Cycler::attribute(Runtime& runtime, std::string_view name) {
  if (name == "current") return items_[position_];
  if (name == "next" || name == "reset") {
    return runtime.object(Kind::callable,
                          runtime.heap().make<CyclerMethod>(*this, name == "reset"));
  }
  return absent_value();
}

Value function_cycler(Runtime& runtime, const Bound& a) {
  if (a.rest.empty()) fail_render("at least one item has to be provided");
  return runtime.object(Kind::callable, runtime.heap().make<Cycler>(a.rest));
}

// joiner(sep): empty at the first call, the separator at all others.
class Joiner : public CallableObject {
 public:
  explicit Joiner(const Value& separator) : separator_(separator) {}
  Value call(Runtime& runtime, Arguments& arguments) override {
    if (!arguments.positional.empty() || !arguments.named.empty()) {
      fail_render("Joiner.__call__() takes no arguments");
    }
    if (used_) return separator_;
    used_ = true;
    return runtime.string({}, Origin::from_template);
  }
  std::string describe() const override { return "<Joiner object>"; }
  std::string_view type_name() const override { return "Joiner"; }

 private:
  Value separator_;
  bool used_ = false;
};

Value function_joiner(Runtime& runtime, const Bound& a) {
  const Value separator = a.has(0) ? a[0] : runtime.string(", ", Origin::from_template);
  return runtime.object(Kind::callable, runtime.heap().make<Joiner>(separator));
}

Value function_lipsum(Runtime&, const Bound&) {
  fail(ErrorCode::unsupported, "the function lipsum() is not supported");
}

constexpr Builtin kFunctions[] = {
    {"range", "start stop? step? /", function_range},
    {"dict", "mapping? / **", function_dict},
    {"namespace", "mapping? / **", function_namespace},
    {"raise_exception", "message", function_raise_exception},
    {"strftime_now", "format", function_strftime_now},
    {"cycler", "*", function_cycler},
    {"joiner", "sep?", function_joiner},
    {"lipsum", "* **", function_lipsum},
};

}  // namespace

const Builtin* find_function(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [&](const Builtin& function) { return function.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

std::string format_time(int64_t unix_time, std::string_view format) {
  const auto seconds = static_cast<std::time_t>(unix_time);
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) fail_render("strftime_now: the time is out of range");
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    size_t end = i + 1;
    // glibc's flags: %-d, %_d, %^a.
    while (end + 1 < format.size() && std::string_view("-_0^#").find(format[end]) != format.npos) {
      ++end;
    }
    const char directive = format[end];
    if (directive == 'f') {
      out += "000000";
    } else if (directive == 'z' || directive == 'Z') {
      // Python's now() has no time zone: both are empty.
    } else if (std::string_view("aAbBcCdDeFgGhHIjklmMnprRsStTuUVwWxXyY%").find(directive) !=
               std::string_view::npos) {
      const std::string one(format.substr(i, end + 1 - i));
      char buffer[128];
      out.append(buffer, std::strftime(buffer, sizeof buffer, one.c_str(), &parts));
    } else {
      out += format.substr(i, end + 1 - i);
    }
    i = end;
  }
  return out;
}

}  // namespace strata::jinja
