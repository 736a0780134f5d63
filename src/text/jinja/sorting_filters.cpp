#include <algorithm>
#include <set>

#include "text/jinja/filters.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

namespace strata::jinja {
namespace {

Value ignore_case(Runtime& runtime, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is(Kind::string)) return value;
  return runtime.string(to_lower(value.text().bytes()), value.origin);
}

struct Keyed {
  Value key, item;
};

// Python's sorted(): stable, also in reverse.
void sort_keyed(Runtime& runtime, std::vector<Keyed>& items, bool reverse) {
  // std::stable_sort needs an order even where NaN has none; Python's result is arbitrary there.
  if (reverse) std::reverse(items.begin(), items.end());
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return compare(runtime, a.key, b.key).value_or(0) < 0;
  });
  if (reverse) std::reverse(items.begin(), items.end());
}

std::vector<Value> items_of(const std::vector<Keyed>& keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (const Keyed& k : keyed) items.push_back(k.item);
  return items;
}

Value extreme(Runtime& runtime, const Bound& a, bool want_max) {
  const bool case_sensitive = a.has(1) && truthy(a[1]);
  const AttributePath path(runtime, a.has(2) ? a[2] : none_value());
  Cursor cursor(runtime, a[0]);
  Value best, best_key, item;
  bool any = false;
  while (cursor.next(item)) {
    const Value key = ignore_case(runtime, path.get(runtime, item), case_sensitive);
    const auto order = any ? compare(runtime, key, best_key, want_max ? ">" : "<") : 0;
    if (!any || (order && (want_max ? *order > 0 : *order < 0))) {
      best = item;
      best_key = key;
    }
    any = true;
  }
  return any ? best : runtime.undefined("No aggregated item, sequence was empty.");
}

}  // namespace

Value filter_sort(Runtime& runtime, const Bound& a) {
  const bool reverse = a.has(1) && truthy(a[1]), case_sensitive = a.has(2) && truthy(a[2]);
  // "a,b" sorts by a, then by b.
  std::vector<AttributePath> paths;
  if (a.given(3) && a[3].is(Kind::string)) {
    std::string_view names = a[3].text().bytes();
    while (true) {
      const std::string_view name = names.substr(0, names.find(','));
      paths.emplace_back(runtime, runtime.string(std::string(name), Origin::from_template));
      if (name.size() == names.size()) break;
      names.remove_prefix(name.size() + 1);
    }
  } else {
    paths.emplace_back(runtime, a.has(3) ? a[3] : none_value());
  }
  std::vector<Keyed> items;
  for (const Value& item : collect(runtime, a[0])) {
    std::vector<Value> key;
    key.reserve(paths.size());
    for (const AttributePath& path : paths) {
      key.push_back(ignore_case(runtime, path.get(runtime, item), case_sensitive));
    }
    items.push_back({runtime.list(std::move(key)), item});
  }
  sort_keyed(runtime, items, reverse);
  return runtime.list(items_of(items), a[0].origin);
}

Value filter_dictsort(Runtime& runtime, const Bound& a) {
  const bool case_sensitive = a.has(1) && truthy(a[1]);
  const std::string by = a.has(2) ? text_argument(a[2], "dictsort").bytes() : "key";
  if (by != "key" && by != "value") fail_render("You can only sort by either \"key\" or \"value\"");
  require_defined(a[0]);
  if (!a[0].is(Kind::dict)) {
    fail_render("'{}' object has no attribute 'items'", type_name(a[0]));
  }
  std::vector<Keyed> items;
  for (const auto& [key, value] : a[0].dict().entries()) {
    items.push_back({ignore_case(runtime, by == "key" ? key : value, case_sensitive),
                     runtime.tuple({key, value}, a[0].origin)});
  }
  sort_keyed(runtime, items, a.has(3) && truthy(a[3]));
  return runtime.list(items_of(items), a[0].origin);
}

Value filter_unique(Runtime& runtime, const Bound& a) {
  const bool case_sensitive = a.has(1) && truthy(a[1]);
  const auto path = std::make_shared<AttributePath>(runtime, a.has(2) ? a[2] : none_value());
  const auto seen = std::make_shared<std::set<std::string>>();
  const auto cursor = std::make_shared<Cursor>(runtime, a[0]);
  return runtime.iterator(
      [=, &runtime](Value& item) {
        while (cursor->next(item)) {
          const Value key = ignore_case(runtime, path->get(runtime, item), case_sensitive);
          if (seen->insert(hash_key(key)).second) return true;
        }
        return false;
      },
      a[0].origin);
}

Value filter_groupby(Runtime& runtime, const Bound& a) {
  const bool case_sensitive = a.has(3) && truthy(a[3]);
  const AttributePath path(runtime, a[1], a.has(2) ? a[2] : absent_value());
  std::vector<Keyed> items;
  for (const Value& item : collect(runtime, a[0])) {
    items.push_back({ignore_case(runtime, path.get(runtime, item), case_sensitive), item});
  }
  sort_keyed(runtime, items, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < items.size();) {
    size_t end = begin + 1;
    while (end < items.size() && equals(runtime, items[begin].key, items[end].key)) ++end;
    std::vector<Value> members;
    for (size_t i = begin; i < end; ++i) members.push_back(items[i].item);
    const Value key = case_sensitive ? items[begin].key : path.get(runtime, items[begin].item);
    auto* pair = runtime.heap().make<ListObject>(
        std::vector<Value>{key, runtime.list(std::move(members), a[0].origin)});
    pair->is_group = true;
    groups.push_back(runtime.object(Kind::tuple, pair, a[0].origin));
    begin = end;
  }
  return runtime.list(std::move(groups), a[0].origin);
}

Value filter_min(Runtime& runtime, const Bound& a) { return extreme(runtime, a, false); }
Value filter_max(Runtime& runtime, const Bound& a) { return extreme(runtime, a, true); }

Value filter_sum(Runtime& runtime, const Bound& a) {
  const AttributePath path(runtime, a.has(1) ? a[1] : none_value());
  Value total = a.has(2) ? a[2] : int_value(0);
  if (total.is(Kind::string)) fail_render("sum() can't sum strings [use ''.join(seq) instead]");
  Cursor cursor(runtime, a[0]);
  Value item;
  while (cursor.next(item)) {
    total = apply_binary(runtime, BinaryOperator::add, total, path.get(runtime, item));
  }
  return total;
}

}  // namespace strata::jinja
