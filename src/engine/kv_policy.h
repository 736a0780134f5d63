#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

// What a sequence keeps of its past.
//   full: every position.
//
//   window=N: a token sees the last N positions, its own included; pages behind them go back.
//
//   sinks=S,window=N: and the first S positions whatever their distance (StreamingLLM, Xiao et al.
//   2023, arXiv:2309.17453): memory stays constant, and positions as the model sees them stay below
//   S + N however long the text becomes.
//
// A layer whose own window is not larger than N keeps it, and has no sinks.
//
// Positions under sinks. The paper stores keys before rope and turns every key of the cache at each
// step, by its place in the cache. A score depends on the distance of query and key alone, so the
// same numbers come out when keys keep the rope of their place in the text, whose distances to the
// query within the window are those of the cache, and the sinks alone are read by a query turned to
// its place in the cache: position min(t, S + N - 1). That costs one more rope of the query instead
// of one of every key.
struct KvPolicy {
  int64_t window = 0;  // 0: full
  int64_t sinks = 0;   // only with a window

  bool is_full() const { return window == 0; }
  bool operator==(const KvPolicy&) const = default;
};

// The spellings above. Throws Error{invalid_argument} naming `option`.
KvPolicy parse_kv_policy(std::string_view text, std::string_view option);
std::string kv_policy_name(const KvPolicy& policy);

}  // namespace strata
