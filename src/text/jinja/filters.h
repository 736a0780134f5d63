#pragma once

#include "text/jinja/builtin.h"

// The filters, by topic; filters.cpp has the table.
namespace strata::jinja {

// On text (text_filters.cpp).
Value filter_upper(Runtime& runtime, const Bound& a);
Value filter_lower(Runtime& runtime, const Bound& a);
Value filter_title(Runtime& runtime, const Bound& a);
Value filter_capitalize(Runtime& runtime, const Bound& a);
Value filter_trim(Runtime& runtime, const Bound& a);
Value filter_replace(Runtime& runtime, const Bound& a);
Value filter_indent(Runtime& runtime, const Bound& a);
Value filter_truncate(Runtime& runtime, const Bound& a);
Value filter_wordcount(Runtime& runtime, const Bound& a);
Value filter_center(Runtime& runtime, const Bound& a);
Value filter_format(Runtime& runtime, const Bound& a);
Value filter_string(Runtime& runtime, const Bound& a);
Value filter_escape(Runtime& runtime, const Bound& a);
Value filter_urlencode(Runtime& runtime, const Bound& a);
Value filter_tojson(Runtime& runtime, const Bound& a);
Value filter_join(Runtime& runtime, const Bound& a);

// On numbers and single values (value_filters.cpp).
Value filter_int(Runtime& runtime, const Bound& a);
Value filter_float(Runtime& runtime, const Bound& a);
Value filter_abs(Runtime& runtime, const Bound& a);
Value filter_round(Runtime& runtime, const Bound& a);
Value filter_default(Runtime& runtime, const Bound& a);
Value filter_attr(Runtime& runtime, const Bound& a);
Value filter_length(Runtime& runtime, const Bound& a);

// On sequences (sequence_filters.cpp).
Value filter_first(Runtime& runtime, const Bound& a);
Value filter_last(Runtime& runtime, const Bound& a);
Value filter_list(Runtime& runtime, const Bound& a);
Value filter_reverse(Runtime& runtime, const Bound& a);
Value filter_items(Runtime& runtime, const Bound& a);
Value filter_batch(Runtime& runtime, const Bound& a);
Value filter_slice(Runtime& runtime, const Bound& a);
Value filter_map(Runtime& runtime, const Bound& a);
Value filter_select(Runtime& runtime, const Bound& a);
Value filter_reject(Runtime& runtime, const Bound& a);
Value filter_selectattr(Runtime& runtime, const Bound& a);
Value filter_rejectattr(Runtime& runtime, const Bound& a);

// That order or group (sorting_filters.cpp).
Value filter_sort(Runtime& runtime, const Bound& a);
Value filter_dictsort(Runtime& runtime, const Bound& a);
Value filter_unique(Runtime& runtime, const Bound& a);
Value filter_groupby(Runtime& runtime, const Bound& a);
Value filter_min(Runtime& runtime, const Bound& a);
Value filter_max(Runtime& runtime, const Bound& a);
Value filter_sum(Runtime& runtime, const Bound& a);

// item.a.b.0 for "a.b.0"; None gives the item itself; undefined parts become `fallback` if given.
class AttributePath {
 public:
  AttributePath(Runtime& runtime, const Value& attribute, const Value& fallback = absent_value());
  Value get(Runtime& runtime, const Value& item) const;

 private:
  std::vector<Value> parts_;
  Value fallback_;
};

}  // namespace strata::jinja
