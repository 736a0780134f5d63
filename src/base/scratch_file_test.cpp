#include "base/scratch_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace strata {
namespace {

TEST(ScratchFile, KeepsBytesAndHasNoName) {
  const std::string folder = testing::TempDir() + "/scratch-test";
  std::filesystem::create_directory(folder);
  {
    ScratchFile file(folder);
    EXPECT_EQ(file.place(), folder);
    const std::vector<std::byte> a(1000, std::byte{1}), b(500, std::byte{2});
    ASSERT_TRUE(file.write(0, a));
    ASSERT_TRUE(file.write(5000, b));
    std::vector<std::byte> got(500);
    ASSERT_TRUE(file.read(5000, got));
    EXPECT_EQ(got, b);
    ASSERT_TRUE(file.read(700, std::span(got).first(300)));
    EXPECT_EQ(got[299], std::byte{1});
    EXPECT_FALSE(file.read(5001, got)) << "one byte beyond the end";
    EXPECT_FALSE(file.fault().empty());
    file.clear();
    EXPECT_FALSE(file.read(0, std::span(got).first(1)));
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
  std::filesystem::remove(folder);
}

TEST(ScratchFile, SaysWhatIsWrong) {
  EXPECT_THROW({ const ScratchFile nowhere("/nowhere/at/all"); }, Error);
  ScratchFile full(::open("/dev/full", O_RDWR | O_CLOEXEC), "/dev/full");
  EXPECT_FALSE(full.write(0, std::vector<std::byte>(10)));
  EXPECT_EQ(full.fault(), "No space left on device");
}

}  // namespace
}  // namespace strata
