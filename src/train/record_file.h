#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>

#include "base/json.h"

namespace strata {

// A file of JSON objects with a "step" each, one a line, to which a run appends. A run that goes on
// after an earlier one keeps the earlier one's lines up to the step it begins at.
class RecordFile {
 public:
  // Calls `kept` with each line that stays. Throws Error{invalid_argument} when the file cannot be
  // written, naming it.
  RecordFile(std::filesystem::path path, int64_t last_step,
             const std::function<void(const Json&)>& kept = {});
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Throws Error{resource_exhausted} when the disk is full.
  void add(const OrderedJson& line);

 private:
  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

}  // namespace strata
