#pragma once

#include <functional>
#include <thread>

namespace strata {

// A thread that runs fn. Throws Error{resource_exhausted} when the system starts no more of them.
std::thread start_thread(std::function<void()> fn);

}  // namespace strata
