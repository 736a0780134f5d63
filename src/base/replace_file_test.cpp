#include "base/replace_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/mapped_file.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

class ReplaceFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("strata_replace_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  static std::string content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  long files() const { return std::distance(fs::directory_iterator(folder_), {}); }
  fs::path folder_;
};

TEST_F(ReplaceFileTest, TheNewContentAppearsOnCommitOnly) {
  const fs::path path = folder_ / "model";
  std::ofstream(path) << "old";
  MappedFile reader(path);
  {
    ReplaceFile file(path);
    file.write("new content");
    EXPECT_EQ(content(path), "old");
    file.commit();
  }
  EXPECT_EQ(content(path), "new content");
  // Whoever has the old file mapped keeps it (a write in place would change the weights in use).
  EXPECT_EQ(static_cast<char>(reader.bytes()[0]), 'o');
  EXPECT_FALSE(reader.damaged());
  EXPECT_EQ(files(), 1);
}

TEST_F(ReplaceFileTest, NothingIsLeftWithoutCommit) {
  {
    ReplaceFile file(folder_ / "model");
    file.write("half");
  }
  EXPECT_EQ(files(), 0);
}

TEST_F(ReplaceFileTest, AFolderThatIsNotThere) {
  EXPECT_THROW(ReplaceFile(folder_ / "none" / "model"), Error);
  EXPECT_THROW(sync_folder(folder_ / "none"), Error);
  std::ofstream(folder_ / "file") << "no folder";
  EXPECT_THROW(sync_folder(folder_ / "file"), Error);
  sync_folder(folder_);
}

}  // namespace
}  // namespace strata
