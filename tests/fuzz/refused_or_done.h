#pragma once

#include "base/error.h"

namespace strata {

// Runs part of a fuzz target. An Error about the input is a right answer; anything else that is
// thrown, ErrorCode::internal among it, ends the process and so is a find.
template <typename Fn>
void refused_or_done(Fn fn) {
  try {
    fn();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::internal) throw;
  }
}

}  // namespace strata
