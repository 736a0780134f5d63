#include "text/jinja/runtime.h"

#include "text/jinja/operations.h"

namespace strata::jinja {
namespace {

// What an object costs beside its text: it lives to the end of the render.
constexpr size_t kObjectBytes = 128;

}  // namespace

void Runtime::fail_budget(std::string_view what) {
  fail_render("rendering needs more {} than a chat template may use", what);
}

Runtime::Reading::Reading(Runtime& runtime) : runtime_(runtime) {
  if (runtime_.readings_ >= runtime_.limits_.value_depth) {
    fail_render("iterators are nested deeper than {}", runtime_.limits_.value_depth);
  }
  ++runtime_.readings_;
}

Value Runtime::object(Kind kind, Object* object, Origin origin) {
  charge_bytes(kObjectBytes);
  Value v;
  v.kind = kind;
  v.origin = origin;
  v.object = object;
  return v;
}

Value Runtime::string(MarkedText text) {
  charge(1);
  charge_bytes(text.size());
  const Origin origin = text.overall_origin();
  return object(Kind::string, heap_.make<StringObject>(std::move(text)), origin);
}

Value Runtime::list(std::vector<Value> items, Origin origin) {
  charge(static_cast<int64_t>(items.size()));
  return object(Kind::list, heap_.make<ListObject>(std::move(items)), origin);
}

Value Runtime::tuple(std::vector<Value> items, Origin origin) {
  charge(static_cast<int64_t>(items.size()));
  return object(Kind::tuple, heap_.make<ListObject>(std::move(items)), origin);
}

Value Runtime::range(const RangeObject& range, Origin origin) {
  return object(Kind::range, heap_.make<RangeObject>(range), origin);
}

Value Runtime::view(ViewKind what, std::vector<Value> items, Origin origin) {
  charge(static_cast<int64_t>(items.size()));
  auto* view = heap_.make<ViewObject>();
  view->what = what;
  view->items = std::move(items);
  return object(Kind::view, view, origin);
}

Value Runtime::iterator(std::function<bool(Value&)> next, Origin origin, std::string type_name) {
  auto* iterator = heap_.make<IteratorObject>();
  iterator->next = std::move(next);
  iterator->type_name = std::move(type_name);
  return object(Kind::iterator, iterator, origin);
}

Value Runtime::undefined(std::string message) {
  auto* undefined = heap_.make<UndefinedObject>();
  undefined->message = std::move(message);
  return object(Kind::undefined, undefined);
}

Value Runtime::unsafe_attribute(const Value& owner, std::string_view name) {
  return undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(owner)));
}

}  // namespace strata::jinja
