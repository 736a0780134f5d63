#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace strata {

// What the first bytes look like when they are not what a reader wanted: "a Git LFS pointer file,
// not the weights; ...", "a web page", "a zip archive ...". Empty when nothing is recognised. Only
// for the message after reading has failed: a good file may by chance begin like another kind.
std::string_view recognise_other_kind(std::span<const std::byte> bytes);

}  // namespace strata
