#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/gguf.h"
#include "io/gguf_writer.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class GgufStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("strata_gguf_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  struct Part {
    std::string name;
    std::vector<std::string> tensors;
    int no = 0;
    int count = 0;  // 0: no split keys
    int total = 0;
  };
  void write(const Part& part) {
    GgufWriter writer;
    writer.set("general.name", GgufValue::of_string(part.name));
    if (part.count > 0) {
      writer.set("split.no", {GgufType::u16, static_cast<uint64_t>(part.no)});
      writer.set("split.count", {GgufType::u16, static_cast<uint64_t>(part.count)});
      writer.set("split.tensors.count", GgufValue::of_i32(part.total));
    }
    for (const std::string& name : part.tensors)
      writer.add_tensor(name, TensorType::f32, {2, 32}, std::as_bytes(std::span(values_)));
    writer.write(folder_ / part.name);
  }
  std::string error_of(const std::string& name) {
    try {
      open_gguf(folder_ / name);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  fs::path folder_;
  std::vector<float> values_ = std::vector<float>(64, 2.5f);
};

TEST_F(GgufStoreTest, OneFile) {
  write({"m.gguf", {"b", "a"}});
  const auto store = open_gguf(folder_ / "m.gguf");
  EXPECT_EQ(store->version(), 3u);
  EXPECT_EQ(store->metadata().get_string("general.name"), "m.gguf");
  ASSERT_EQ(store->tensors().size(), 2u);
  const StoredTensor* b = store->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->rows(), 2);
  EXPECT_EQ(b->columns(), 32);
  float value = 0;
  std::memcpy(&value, b->bytes.data(), 4);
  EXPECT_EQ(value, 2.5f);
  EXPECT_EQ(store->find("c"), nullptr);
  EXPECT_EQ(store->file_bytes(), fs::file_size(folder_ / "m.gguf"));
  store->release_pages(b->bytes);
  std::memcpy(&value, b->bytes.data(), 4);  // still there
  EXPECT_EQ(value, 2.5f);
  store->check_intact();
  fs::resize_file(folder_ / "m.gguf", 10);
  EXPECT_THROW(store->check_intact(), Error);
}

TEST_F(GgufStoreTest, PartsInOrderFromAnyOfThem) {
  write({"m-00001-of-00003.gguf", {}, 0, 3, 3});
  write({"m-00002-of-00003.gguf", {"a", "b"}, 1, 3, 3});
  write({"m-00003-of-00003.gguf", {"c"}, 2, 3, 3});
  for (const char* name : {"m-00001-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const auto store = open_gguf(folder_ / name);
    EXPECT_EQ(store->files().size(), 3u);
    EXPECT_EQ(store->metadata().get_string("general.name"), "m-00001-of-00003.gguf");
    EXPECT_EQ(store->tensors().size(), 3u);
    EXPECT_EQ(store->find("c")->file, 2);
    EXPECT_EQ(store->find("c")->bytes.size(), 256u);
  }
}

TEST_F(GgufStoreTest, PartsThatDoNotFitTogether) {
  write({"m-00001-of-00002.gguf", {"a"}, 0, 2, 2});
  EXPECT_THAT(error_of("m-00001-of-00002.gguf"), HasSubstr("m-00002-of-00002.gguf: no such file"));
  write({"m-00002-of-00002.gguf", {"b"}, 0, 2, 2});
  EXPECT_THAT(error_of("m-00001-of-00002.gguf"), HasSubstr("'split.no': is 0, wanted 1"));
  write({"m-00002-of-00002.gguf", {"b"}, 1, 3, 2});
  EXPECT_THAT(error_of("m-00001-of-00002.gguf"), HasSubstr("'split.count': is 3, wanted 2"));
  write({"m-00002-of-00002.gguf", {"a"}, 1, 2, 2});
  EXPECT_THAT(error_of("m-00001-of-00002.gguf"), HasSubstr("duplicate tensor name 'a'"));
  write({"m-00002-of-00002.gguf", {"b", "c"}, 1, 2, 2});
  EXPECT_THAT(error_of("m-00001-of-00002.gguf"), HasSubstr("is 2, the parts have 3"));
  write({"m-00002-of-00002.gguf", {"b"}});
  EXPECT_THAT(error_of("m-00001-of-00002.gguf"), HasSubstr("'split.count': is missing"));
  EXPECT_THAT(error_of("m-00002-of-00002.gguf"), HasSubstr("its name says part 2 of 2"));
  write({"renamed.gguf", {"a"}, 0, 2, 2});
  EXPECT_THAT(error_of("renamed.gguf"), HasSubstr("must be named like"));
}

}  // namespace
}  // namespace strata
