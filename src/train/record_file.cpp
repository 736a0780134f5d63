#include "train/record_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/replace_file.h"

namespace strata {

RecordFile::RecordFile(std::filesystem::path path, int64_t last_step,
                       const std::function<void(const Json&)>& kept)
    : path_(std::move(path)) {
  std::string text;
  if (last_step > 0) {
    std::ifstream old(path_);
    for (std::string line; std::getline(old, line);) {
      Json j;
      try {
        j = parse_json(line);
        if (j.at("step").get<int64_t>() > last_step) continue;
      } catch (const std::exception&) {
        continue;  // a killed process may have left half a line
      }
      if (kept) kept(j);
      text += line + "\n";
    }
  }
  ReplaceFile file(path_);
  file.write(text);
  file.commit();
  file_ = std::fopen(path_.c_str(), "ae");
  if (file_ == nullptr)
    fail(ErrorCode::invalid_argument, "{}: cannot be written: {}", path_.string(),
         std::strerror(errno));
}

RecordFile::~RecordFile() { std::fclose(file_); }

void RecordFile::add(const OrderedJson& line) {
  if (std::fprintf(file_, "%s\n", to_json_text(line).c_str()) < 0 || std::fflush(file_) != 0)
    fail(ErrorCode::resource_exhausted, "{}: cannot write: {}", path_.string(),
         std::strerror(errno));
}

}  // namespace strata
