#pragma once

#include <span>
#include <string_view>

namespace strata::server {

// A file of the chat page, embedded in the program at build.
struct WebFile {
  std::string_view path;  // "/web/app.js"
  std::string_view content_type;
  std::string_view content;
};

std::span<const WebFile> web_files();

}  // namespace strata::server
