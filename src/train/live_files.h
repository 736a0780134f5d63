#pragma once

#include <span>
#include <string_view>

namespace strata {

// A file of the live page, embedded in the program at build.
struct LiveFile {
  std::string_view path;  // "/train/page.js"
  std::string_view content_type;
  std::string_view content;
};

std::span<const LiveFile> live_files();

}  // namespace strata
