#include <algorithm>
#include <memory>

#include "text/jinja/filters.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

namespace strata::jinja {
namespace {

// A walk that an iterator keeps between reads.
std::shared_ptr<Cursor> shared_cursor(Runtime& runtime, const Value& iterable) {
  return std::make_shared<Cursor>(runtime, iterable);
}

Value empty_iterator(Runtime& runtime, Origin origin) {
  return runtime.iterator([](Value&) { return false; }, origin);
}

// select, reject, selectattr, rejectattr: keeps items whose test answers `wanted`.
Value filter_by_test(Runtime& runtime, const Bound& a, bool by_attribute, bool wanted) {
  if (!truthy(a[0])) return empty_iterator(runtime, a[0].origin);
  size_t used = 0;
  auto path = std::make_shared<AttributePath>(runtime, none_value());
  if (by_attribute) {
    if (a.rest.empty()) fail_render("Missing parameter for attribute name");
    *path = AttributePath(runtime, a.rest[used++]);
  }
  std::string test;
  Arguments template_arguments;
  template_arguments.positional.push_back(absent_value());
  if (used < a.rest.size()) {
    test = text_argument(a.rest[used++], "test name").bytes();
    template_arguments.positional.insert(template_arguments.positional.end(),
                                         a.rest.begin() + static_cast<std::ptrdiff_t>(used),
                                         a.rest.end());
    template_arguments.named = a.rest_named;
  }
  auto cursor = shared_cursor(runtime, a[0]);
  return runtime.iterator(
      [=, &runtime](Value& item) {
        while (cursor->next(item)) {
          const Value subject = path->get(runtime, item);
          bool answer = false;
          if (test.empty()) {
            answer = truthy(subject);
          } else {
            Arguments arguments = template_arguments;
            arguments.positional[0] = subject;
            answer = call_test(runtime, test, arguments);
          }
          if (answer == wanted) return true;
        }
        return false;
      },
      a[0].origin);
}

}  // namespace

AttributePath::AttributePath(Runtime& runtime, const Value& attribute, const Value& fallback)
    : fallback_(fallback) {
  if (attribute.is(Kind::none)) return;
  if (!attribute.is(Kind::string)) {
    parts_.push_back(attribute);
    return;
  }
  std::string_view path = attribute.text().bytes();
  while (true) {
    const std::string_view part = path.substr(0, path.find('.'));
    const bool digits =
        !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == part.npos;
    parts_.push_back(digits ? int_value(std::stoll(std::string(part)))
                            : runtime.string(std::string(part), Origin::from_template));
    if (part.size() == path.size()) break;
    path.remove_prefix(part.size() + 1);
  }
}

Value AttributePath::get(Runtime& runtime, const Value& item) const {
  Value value = item;
  for (const Value& part : parts_) {
    value = get_item(runtime, value, part);
    const bool replace = !fallback_.is(Kind::absent) && !fallback_.is(Kind::none);
    if (replace && value.is(Kind::undefined)) value = fallback_;
  }
  return value;
}

Value filter_first(Runtime& runtime, const Bound& a) {
  Cursor cursor(runtime, a[0]);
  Value item;
  return cursor.next(item) ? item : runtime.undefined("No first item, sequence was empty.");
}

Value filter_last(Runtime& runtime, const Bound& a) {
  if (a[0].is(Kind::iterator)) {
    fail_render("'{}' object is not reversible", type_name(a[0]));
  }
  if (a[0].is(Kind::undefined)) return runtime.undefined("No last item, sequence was empty.");
  const std::vector<Value> items = collect(runtime, a[0]);
  return items.empty() ? runtime.undefined("No last item, sequence was empty.") : items.back();
}

Value filter_list(Runtime& runtime, const Bound& a) {
  return runtime.list(collect(runtime, a[0]), a[0].origin);
}

Value filter_reverse(Runtime& runtime, const Bound& a) {
  std::vector<Value> items = collect(runtime, a[0]);
  std::reverse(items.begin(), items.end());
  if (a[0].is(Kind::string)) {
    MarkedText out({}, a[0].origin);
    for (const Value& item : items) out.append(item.text());
    return runtime.string(std::move(out));
  }
  // Undefined and iterators cannot be walked backwards, so jinja2 copies those into a list.
  if (a[0].is(Kind::iterator)) return runtime.list(std::move(items), a[0].origin);
  auto shared = std::make_shared<std::vector<Value>>(std::move(items));
  return runtime.iterator(
      [shared, i = size_t{0}](Value& item) mutable {
        if (i >= shared->size()) return false;
        item = (*shared)[i++];
        return true;
      },
      a[0].origin, a[0].is(Kind::list) ? "list_reverseiterator" : "reversed");
}

Value filter_items(Runtime& runtime, const Bound& a) {
  if (a[0].is(Kind::undefined)) return empty_iterator(runtime, a[0].origin);
  if (!a[0].is(Kind::dict)) {
    return runtime.iterator(
        [](Value&) -> bool { fail_render("Can only get item pairs from a mapping."); },
        a[0].origin);
  }
  const Value dict = a[0];
  return runtime.iterator(
      [dict, &runtime, i = size_t{0}](Value& item) mutable {
        const auto& entries = dict.dict().entries();
        if (i >= entries.size()) return false;
        item = runtime.tuple({entries[i].first, entries[i].second}, dict.origin);
        ++i;
        return true;
      },
      a[0].origin);
}

Value filter_batch(Runtime& runtime, const Bound& a) {
  const int64_t size = integer_argument(a[1], "batch");
  const Value fill = a.given(2) ? a[2] : absent_value();
  auto cursor = shared_cursor(runtime, a[0]);
  auto pending = std::make_shared<Value>(absent_value());
  return runtime.iterator(
      [=, &runtime](Value& out) {
        std::vector<Value> row;
        if (!pending->is(Kind::absent)) row.push_back(*pending);
        *pending = absent_value();
        // A row is given out when the item after it comes; for size 0 that is one empty row.
        Value item;
        bool more = cursor->next(item);
        if (!more && row.empty()) return false;
        for (; more; more = cursor->next(item)) {
          if (static_cast<int64_t>(row.size()) == size) {
            *pending = item;
            break;
          }
          row.push_back(item);
        }
        if (!fill.is(Kind::absent) && pending->is(Kind::absent)) {
          while (static_cast<int64_t>(row.size()) < size) {
            runtime.charge(1);
            row.push_back(fill);
          }
        }
        out = runtime.list(std::move(row));
        return true;
      },
      a[0].origin);
}

Value filter_slice(Runtime& runtime, const Bound& a) {
  const std::vector<Value> items = collect(runtime, a[0]);
  const int64_t slices = integer_argument(a[1], "slice");
  if (slices == 0) fail_render("integer division or modulo by zero");
  const auto size = static_cast<int64_t>(items.size());
  std::vector<Value> rows;
  size_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    runtime.charge(1);
    const bool extra = i < size % slices;
    const size_t end = begin + static_cast<size_t>(size / slices) + (extra ? 1 : 0);
    std::vector<Value> row(items.begin() + static_cast<std::ptrdiff_t>(begin),
                           items.begin() + static_cast<std::ptrdiff_t>(end));
    if (a.given(2) && !extra) row.push_back(a[2]);
    rows.push_back(runtime.list(std::move(row)));
    begin = end;
  }
  auto shared = std::make_shared<std::vector<Value>>(std::move(rows));
  return runtime.iterator(
      [shared, i = size_t{0}](Value& item) mutable {
        if (i >= shared->size()) return false;
        item = (*shared)[i++];
        return true;
      },
      a[0].origin);
}

Value filter_map(Runtime& runtime, const Bound& a) {
  if (!truthy(a[0])) return empty_iterator(runtime, a[0].origin);
  auto cursor = shared_cursor(runtime, a[0]);
  if (a.rest.empty()) {
    Value attribute = absent_value(), fallback = absent_value();
    for (const auto& [name, value] : a.rest_named) {
      if (name == "attribute") {
        attribute = value;
      } else if (name == "default") {
        fallback = value;
      } else {
        fail_render("Unexpected keyword argument '{}'", name);
      }
    }
    if (attribute.is(Kind::absent)) fail_render("map requires a filter argument");
    auto path = std::make_shared<AttributePath>(runtime, attribute, fallback);
    return runtime.iterator(
        [=, &runtime](Value& item) {
          if (!cursor->next(item)) return false;
          item = path->get(runtime, item);
          return true;
        },
        a[0].origin);
  }
  const std::string filter = text_argument(a.rest[0], "map").bytes();
  Arguments template_arguments;
  template_arguments.positional = a.rest;
  template_arguments.named = a.rest_named;
  return runtime.iterator(
      [=, &runtime](Value& item) {
        if (!cursor->next(item)) return false;
        Arguments arguments = template_arguments;
        arguments.positional[0] = item;
        item = call_filter(runtime, filter, arguments);
        return true;
      },
      a[0].origin);
}

Value filter_select(Runtime& runtime, const Bound& a) {
  return filter_by_test(runtime, a, false, true);
}
Value filter_reject(Runtime& runtime, const Bound& a) {
  return filter_by_test(runtime, a, false, false);
}
Value filter_selectattr(Runtime& runtime, const Bound& a) {
  return filter_by_test(runtime, a, true, true);
}
Value filter_rejectattr(Runtime& runtime, const Bound& a) {
  return filter_by_test(runtime, a, true, false);
}

}  // namespace strata::jinja
