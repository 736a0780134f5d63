#pragma once

#include <string>

#include "base/error.h"

namespace strata {

// What the Error says that `fn` throws; "no error" when it throws none.
template <typename Fn>
std::string message(Fn fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace strata
