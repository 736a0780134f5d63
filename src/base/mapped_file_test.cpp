#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("strata_mapped_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  fs::path folder_;
};

std::string error_of(const fs::path& path, ErrorCode want) {
  try {
    MappedFile file(path);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), want) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST_F(MappedFileTest, ShowsTheBytesOfTheFile) {
  MappedFile file(write("a", "hello"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()),
            "hello");
  file.release_pages(file.bytes().subspan(1, 3));
  EXPECT_EQ(static_cast<char>(file.bytes()[4]), 'o');
  EXPECT_FALSE(file.damaged());
  file.check_intact();
}

TEST_F(MappedFileTest, EmptyFile) {
  MappedFile file(write("empty", ""));
  EXPECT_TRUE(file.bytes().empty());
  file.check_intact();
}

TEST_F(MappedFileTest, RefusesWhatIsNoRegularFile) {
  EXPECT_NE(error_of(folder_ / "none", ErrorCode::not_found).find("none"), std::string::npos);
  error_of(folder_, ErrorCode::invalid_argument);
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  error_of(folder_ / "fifo", ErrorCode::invalid_argument);
}

TEST_F(MappedFileTest, TruncationWhileMappedReadsAsZerosAndIsReported) {
  const fs::path path = write("cut", std::string(1 << 20, 'x'));
  MappedFile file(path), other(write("whole", std::string(1 << 16, 'y')));
  fs::resize_file(path, 0);
  std::vector<std::thread> readers;
  std::vector<uint64_t> sums(4, 1);
  for (size_t t = 0; t < sums.size(); ++t)
    readers.emplace_back([&, t] {
      uint64_t sum = 0;
      for (std::byte b : file.bytes()) sum += static_cast<uint64_t>(b);
      sums[t] = sum;
    });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(sums, std::vector<uint64_t>(4, 0));
  EXPECT_TRUE(file.damaged());
  EXPECT_FALSE(other.damaged());
  try {
    file.check_intact();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::data_corrupt);
    EXPECT_NE(std::string(e.what()).find(path.string()), std::string::npos);
  }
}

// The end of the last page reads as zeros without any signal.
TEST_F(MappedFileTest, TruncationWithinTheLastPageIsReported) {
  const fs::path path = write("cut", "0123456789");
  MappedFile file(path);
  fs::resize_file(path, 5);
  EXPECT_TRUE(file.damaged());
}

TEST_F(MappedFileTest, ASlotThatWasDamagedStartsAfresh) {
  const fs::path path = write("cut", std::string(1 << 16, 'x'));
  {
    MappedFile file(path);
    fs::resize_file(path, 0);
    EXPECT_EQ(static_cast<int>(file.bytes()[60000]), 0);
  }
  MappedFile again(write("new", "abc"));
  EXPECT_FALSE(again.damaged());
}

using MappedFileDeathTest = MappedFileTest;

TEST_F(MappedFileDeathTest, ABusErrorElsewhereStillKills) {
  MappedFile file(write("a", "hello"));
  // ASan keeps a handler of its own, to which ours hands over: it exits with a report.
  EXPECT_DEATH(raise(SIGBUS), "");
}

}  // namespace
}  // namespace strata
