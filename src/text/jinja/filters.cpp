#include "text/jinja/filters.h"

#include <algorithm>
#include <iterator>

namespace strata::jinja {
namespace {

constexpr Builtin kFilters[] = {
    {"abs", "number", filter_abs},
    {"attr", "obj name", filter_attr},
    {"batch", "value linecount fill_with?", filter_batch},
    {"capitalize", "s", filter_capitalize},
    {"center", "value width?", filter_center},
    {"count", "value", filter_length},
    {"d", "value default_value? boolean?", filter_default},
    {"default", "value default_value? boolean?", filter_default},
    {"dictsort", "value case_sensitive? by? reverse?", filter_dictsort},
    {"e", "s", filter_escape},
    {"escape", "s", filter_escape},
    {"first", "seq", filter_first},
    {"float", "value default?", filter_float},
    {"forceescape", "value", filter_escape},
    {"format", "value * **", filter_format},
    {"groupby", "value attribute default? case_sensitive?", filter_groupby},
    {"indent", "s width? first? blank?", filter_indent},
    {"int", "value default? base?", filter_int},
    {"items", "value", filter_items},
    {"join", "value d? attribute?", filter_join},
    {"last", "seq", filter_last},
    {"length", "value", filter_length},
    {"list", "value", filter_list},
    {"lower", "s", filter_lower},
    {"map", "value * **", filter_map},
    {"max", "value case_sensitive? attribute?", filter_max},
    {"min", "value case_sensitive? attribute?", filter_min},
    {"reject", "value * **", filter_reject},
    {"rejectattr", "value * **", filter_rejectattr},
    {"replace", "s old new count?", filter_replace},
    {"reverse", "value", filter_reverse},
    {"round", "value precision? method?", filter_round},
    {"safe", "value", filter_string},
    {"select", "value * **", filter_select},
    {"selectattr", "value * **", filter_selectattr},
    {"slice", "value slices fill_with?", filter_slice},
    {"sort", "value reverse? case_sensitive? attribute?", filter_sort},
    {"string", "s", filter_string},
    {"sum", "iterable attribute? start?", filter_sum},
    {"title", "s", filter_title},
    {"tojson", "x ensure_ascii? indent? separators? sort_keys?", filter_tojson},
    {"trim", "value chars?", filter_trim},
    {"truncate", "s length? killwords? end? leeway?", filter_truncate},
    {"unique", "value case_sensitive? attribute?", filter_unique},
    {"upper", "s", filter_upper},
    {"urlencode", "value", filter_urlencode},
    {"wordcount", "s", filter_wordcount},
};

}  // namespace

const Builtin* find_filter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                   [&](const Builtin& filter) { return filter.name == name; });
  return found == std::end(kFilters) ? nullptr : found;
}

}  // namespace strata::jinja
