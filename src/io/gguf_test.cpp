#include "io/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/gguf_writer.h"

namespace strata {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Bytes as a hostile or careless program would write them, field by field; shares no code with the
// writer under src/.
class RawGguf {
 public:
  template <typename T>
  RawGguf& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  RawGguf& u32(uint64_t value) { return put(static_cast<uint32_t>(value)); }
  RawGguf& u64(uint64_t value) { return put(value); }
  RawGguf& raw(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  RawGguf& text(const std::string& text) { return u64(text.size()).raw(text); }
  RawGguf& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(tensors).u64(keys);
  }
  // Name, dimensions as in the file (fastest first), type number, offset.
  RawGguf& tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                  uint64_t offset) {
    text(name).u32(dims.size());
    for (uint64_t dim : dims) u64(dim);
    return u32(type).u64(offset);
  }
  RawGguf& data(size_t size) {
    bytes_.append((32 - bytes_.size() % 32) % 32, '\0');
    bytes_.append(size, '\x11');
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

Error error_of(const std::string& bytes) {
  try {
    parse_gguf(bytes_of(bytes), "m.gguf");
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::StartsWith("m.gguf: "));
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::internal, "");
}
std::string corrupt(const std::string& bytes) {
  const Error e = error_of(bytes);
  EXPECT_EQ(e.code(), ErrorCode::data_corrupt) << e.what();
  return e.what();
}
std::string corrupt(const RawGguf& file) { return corrupt(file.bytes()); }

constexpr uint32_t kString = 8, kArray = 9, kU32 = 4, kBool = 7;

TEST(Gguf, ReadsEveryValueType) {
  RawGguf file;
  file.header(0, 16, 2);
  file.text("u8").u32(0).put(uint8_t{200});
  file.text("i8").u32(1).put(int8_t{-100});
  file.text("u16").u32(2).put(uint16_t{60000});
  file.text("i16").u32(3).put(int16_t{-30000});
  file.text("u32").u32(4).put(uint32_t{4000000000});
  file.text("i32").u32(5).put(int32_t{-2000000000});
  file.text("f32").u32(6).put(0.5f);
  file.text("bool").u32(7).put(uint8_t{1});
  file.text("string").u32(8).text("h\xc3\xa9");
  file.text("u64").u32(10).put(std::numeric_limits<uint64_t>::max());
  file.text("i64").u32(11).put(std::numeric_limits<int64_t>::min());
  file.text("f64").u32(12).put(0.25);
  file.text("strings").u32(9).u32(8).u64(3).text("a").text("").text("ccc");
  file.text("floats").u32(9).u32(6).u64(2).put(1.5f).put(-2.5f);
  file.text("shorts").u32(9).u32(3).u64(2).put(int16_t{-7}).put(int16_t{9});
  file.text("nested").u32(9).u32(9).u64(2).u32(kU32).u64(1).u32(5).u32(kString).u64(1).text("x");

  const GgufContent content = parse_gguf(bytes_of(file.bytes()), "m.gguf");
  const GgufMetadata& m = content.metadata;
  EXPECT_EQ(content.version, 2u);
  EXPECT_EQ(m.get_u32("u8"), 200u);
  EXPECT_EQ(m.find_i32("i8"), -100);
  EXPECT_EQ(m.get_u32("u16"), 60000u);
  EXPECT_EQ(m.find_i32("i16"), -30000);
  EXPECT_EQ(m.get_u32("u32"), 4000000000u);
  EXPECT_EQ(m.find_i32("i32"), -2000000000);
  EXPECT_EQ(m.get_f32("f32"), 0.5f);
  EXPECT_TRUE(m.get_bool("bool"));
  EXPECT_EQ(m.get_string("string"), "h\xc3\xa9");
  EXPECT_EQ(m.get_u64("u64"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(m.get_f32("f64"), 0.25f);
  const GgufStrings& strings = m.get_strings("strings");
  ASSERT_EQ(strings.size(), 3u);
  EXPECT_EQ(strings[0], "a");
  EXPECT_EQ(strings[1], "");
  EXPECT_EQ(strings[2], "ccc");
  EXPECT_EQ(m.get_f32s("floats"), (std::vector<float>{1.5f, -2.5f}));
  EXPECT_EQ(m.get_i32s("shorts"), (std::vector<int32_t>{-7, 9}));
  EXPECT_EQ(describe(*m.find("strings")), "array of 3 string: 'a', '', 'ccc'");
  EXPECT_EQ(describe(*m.find("nested")), "array of 2 array");
  EXPECT_EQ(describe(*m.find("i64")), "i64 -9223372036854775808");

  EXPECT_EQ(m.find_u32("absent"), std::nullopt);
  EXPECT_EQ(m.find_strings("absent"), nullptr);
}

TEST(Gguf, AccessErrorsNameKeyGotAndWanted) {
  RawGguf file;
  file.header(0, 4).text("n").u32(kString).text("1\n").text("big").u32(10).u64(1ull << 32);
  file.text("neg").u32(5).put(int32_t{-1}).text("u64s").u32(kArray).u32(10).u64(1).u64(1ull << 63);
  const GgufMetadata m = parse_gguf(bytes_of(file.bytes()), "m.gguf").metadata;
  const auto message = [&](const std::function<void()>& get) -> std::string {
    try {
      get();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::data_corrupt);
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { m.get_u32("n"); }),
            "m.gguf: metadata key 'n': is string '1\\x0a', wanted u32");
  EXPECT_EQ(message([&] { m.get_f32("gone"); }),
            "m.gguf: metadata key 'gone': is missing, wanted f32");
  EXPECT_EQ(message([&] { m.get_u32("big"); }),
            "m.gguf: metadata key 'big': is u64 4294967296, wanted u32");
  EXPECT_EQ(message([&] { m.get_u64("neg"); }),
            "m.gguf: metadata key 'neg': is i32 -1, wanted u64");
  EXPECT_EQ(message([&] { m.get_strings("n"); }),
            "m.gguf: metadata key 'n': is string '1\\x0a', wanted array of string");
  EXPECT_EQ(message([&] { m.get_i32s("u64s"); }),
            "m.gguf: metadata key 'u64s': element 0 is 9223372036854775808, wanted i32");
  EXPECT_EQ(
      message([&] { m.get_f32s("u64s"); }),
      "m.gguf: metadata key 'u64s': is array of 1 u64: 9223372036854775808, wanted array of f32");
}

TEST(Gguf, TensorsPointIntoTheFile) {
  RawGguf file;
  file.header(2, 0).tensor("b", {32, 3}, 8, 64).tensor("a", {5}, 0, 0).data(64 + 3 * 34);
  const GgufContent content = parse_gguf(bytes_of(file.bytes()), "m.gguf");
  ASSERT_EQ(content.tensors.size(), 2u);
  const StoredTensor& b = content.tensors[0];
  EXPECT_EQ(b.type, TensorType::q8_0);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{3, 32}));  // row-major: [out, in]
  EXPECT_EQ(b.bytes.size(), 3u * 34);
  EXPECT_EQ(b.file_offset, content.data_offset + 64);
  EXPECT_EQ(content.tensors[1].bytes.size(), 20u);
}

TEST(Gguf, RefusesOtherFiles) {
  EXPECT_THAT(corrupt(std::string()), HasSubstr("empty"));
  EXPECT_THAT(corrupt("GG"), HasSubstr("no GGUF file"));
  EXPECT_THAT(corrupt("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("pointer file"));
  EXPECT_THAT(corrupt("<!DOCTYPE html><html>"), HasSubstr("web page"));
  EXPECT_THAT(corrupt(std::string("PK\x03\x04\0\0", 6)), HasSubstr("zip"));
  EXPECT_THAT(corrupt("GGUF"), HasSubstr("version at byte offset 4"));
  EXPECT_EQ(error_of(RawGguf().header(0, 0, 1).bytes()).code(), ErrorCode::unsupported);
  EXPECT_THAT(error_of(RawGguf().header(0, 0, 0x03000000).bytes()).what(), HasSubstr("big-endian"));
}

TEST(Gguf, CountsAreComparedWithTheFile) {
  for (uint64_t count : {1ull << 32, 1ull << 63, ~0ull}) {
    EXPECT_THAT(corrupt(RawGguf().header(count, 0).data(500)), HasSubstr("tensors cannot fit"));
    EXPECT_THAT(corrupt(RawGguf().header(0, count).data(500)),
                HasSubstr("metadata keys cannot fit"));
  }
}

TEST(Gguf, LengthsOfTextsAndArrays) {
  for (uint64_t length : {1ull << 20, 1ull << 63, ~0ull}) {
    EXPECT_THAT(corrupt(RawGguf().header(0, 1).u64(length).raw("key").data(64)),
                HasSubstr("metadata key at byte offset"));
    EXPECT_THAT(corrupt(RawGguf().header(0, 1).text("k").u32(kString).u64(length).data(64)),
                HasSubstr("metadata key 'k'"));
    for (uint32_t type : {0u, 2u, 4u, 8u, 9u, 10u})
      EXPECT_THAT(
          corrupt(RawGguf().header(0, 1).text("k").u32(kArray).u32(type).u64(length).data(64)),
          HasSubstr("'k'"));
  }
  // 2^61 numbers of 8 bytes: the product is 2^64, that is 0 in 64 bits.
  EXPECT_THAT(
      corrupt(RawGguf().header(0, 1).text("k").u32(kArray).u32(10).u64(1ull << 61).data(64)),
      HasSubstr("2305843009213693952 u64 elements cannot fit"));
}

TEST(Gguf, NestedArraysHaveALimit) {
  RawGguf file;
  file.header(0, 1).text("k").u32(kArray);
  for (int i = 0; i < 20000; ++i) file.u32(kArray).u64(1);
  EXPECT_THAT(corrupt(file), HasSubstr("nested deeper than"));
}

TEST(Gguf, TypesOfValues) {
  EXPECT_THAT(corrupt(RawGguf().header(0, 1).text("k").u32(99).data(64)),
              HasSubstr("value type 99"));
  EXPECT_THAT(corrupt(RawGguf().header(0, 1).text("k").u32(kArray).u32(77).u64(1).data(64)),
              HasSubstr("value type 77"));
  EXPECT_THAT(corrupt(RawGguf().header(0, 1).text("k").u32(kBool).put(uint8_t{2}).data(64)),
              HasSubstr("boolean is 2"));
}

TEST(Gguf, KeysAreUniqueAndText) {
  RawGguf twice;
  twice.header(0, 2).text("k").u32(kU32).u32(1).text("k").u32(kU32).u32(2);
  EXPECT_THAT(corrupt(twice), HasSubstr("duplicate metadata key 'k' at byte offset"));
  EXPECT_THAT(corrupt(RawGguf().header(0, 1).text("\xff").u32(kU32).u32(1)), HasSubstr("UTF-8"));
  EXPECT_THAT(corrupt(RawGguf().header(0, 1).text("").u32(kU32).u32(1)), HasSubstr("metadata key"));
}

TEST(Gguf, Alignment) {
  for (uint64_t alignment : {0ull, 3ull, 33ull, 1ull << 31, 0xffffffffull})
    EXPECT_THAT(corrupt(RawGguf().header(0, 1).text("general.alignment").u32(kU32).u32(alignment)),
                HasSubstr("'general.alignment': is " + std::to_string(alignment)));
  EXPECT_THAT(corrupt(RawGguf().header(0, 1).text("general.alignment").u32(kString).text("32")),
              HasSubstr("general.alignment"));
  RawGguf file;
  file.header(1, 1).text("general.alignment").u32(kU32).u32(64).tensor("a", {1}, 0, 0);
  std::string bytes = file.bytes();
  bytes.append(64 - bytes.size() % 64 + 4, '\0');
  EXPECT_EQ(parse_gguf(bytes_of(bytes), "m").data_offset % 64, 0u);
}

TEST(Gguf, TensorTable) {
  const auto one = [](const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                      uint64_t offset) {
    return RawGguf().header(1, 0).tensor(name, dims, type, offset).data(128).bytes();
  };
  EXPECT_EQ(parse_gguf(bytes_of(one("a", {}, 0, 0)), "m").tensors[0].elements(), 1);
  EXPECT_THAT(corrupt(one("a", {1, 1, 1, 1, 1}, 0, 0)), HasSubstr("n_dims is 5"));
  EXPECT_THAT(corrupt(one("a", {0}, 0, 0)), HasSubstr("'a': dimension 0 is 0"));
  EXPECT_THAT(corrupt(one("a", {4, (1ull << 42) + 1, 1ull << 20, 1}, 0, 0)),
              HasSubstr("dimension 2"));
  EXPECT_THAT(corrupt(one("a", {1ull << 63}, 0, 0)), HasSubstr("dimension 0"));
  EXPECT_THAT(corrupt(one("a", {1ull << 62}, 0, 0)), HasSubstr("overflow"));
  EXPECT_THAT(corrupt(one("a", {31}, 2, 0)),
              HasSubstr("rows of 31 elements, wanted a multiple of 32"));
  EXPECT_THAT(corrupt(one("a", {16}, 0, 96)), HasSubstr("past the file's end"));
  EXPECT_THAT(corrupt(one("a", {1}, 0, ~0ull - 31)), HasSubstr("past the file's end"));
  EXPECT_THAT(corrupt(one("a", {1}, 0, 4)), HasSubstr("offset 4 is not a multiple"));
  EXPECT_THAT(corrupt(one("a", {1}, 1000, 0)), HasSubstr("unknown tensor type 1000"));
  EXPECT_THAT(corrupt(one("../a", {1}, 0, 0)), HasSubstr("path"));
  EXPECT_THAT(corrupt(one("a\n", {1}, 0, 0)), HasSubstr("control character"));
  const Error unread = error_of(one("a", {256}, 16, 0));
  EXPECT_EQ(unread.code(), ErrorCode::unsupported);
  EXPECT_THAT(unread.what(), HasSubstr("tensor 'a': tensor type IQ2_XXS"));

  EXPECT_THAT(
      corrupt(RawGguf().header(2, 0).tensor("a", {1}, 0, 0).tensor("a", {1}, 0, 32).data(64)),
      HasSubstr("duplicate tensor name 'a'"));
  EXPECT_THAT(
      corrupt(RawGguf().header(2, 0).tensor("a", {9}, 0, 0).tensor("b", {1}, 0, 32).data(64)),
      HasSubstr("'a' and 'b' overlap"));
  EXPECT_THAT(
      corrupt(RawGguf().header(2, 0).tensor("a", {4}, 0, 0).tensor("b", {4}, 0, 0).data(64)),
      HasSubstr("overlap"));
}

// Every prefix of a good file is refused, none is read past its end (ASan checks that).
TEST(Gguf, CutAnywhere) {
  const std::vector<float> values(40, 1.0f);
  GgufWriter writer;
  writer.set("general.architecture", GgufValue::of_string("llama"));
  writer.set("tokens", GgufValue::of_strings({"a", "bc", ""}));
  writer.set("scores", GgufValue::of_f32s({1.0f, 2.0f}));
  writer.add_tensor("w", TensorType::f32, {5, 8}, std::as_bytes(std::span(values)));
  const std::string whole = writer.bytes();
  EXPECT_NO_THROW(parse_gguf(bytes_of(whole), "m.gguf"));
  for (size_t size = 0; size + 1 < whole.size(); ++size) {
    const auto bytes = std::as_bytes(std::span(whole.data(), size));
    const std::vector<std::byte> cut(bytes.begin(), bytes.end());  // exactly as long: no slack
    EXPECT_THROW(parse_gguf(cut, "m.gguf"), Error) << size;
  }
}

}  // namespace
}  // namespace strata
