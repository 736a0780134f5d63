#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/model_files.h"
#include "io/safetensors_writer.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header +
         std::string(data_bytes, '\x3f');
}
SafetensorsContent parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes.data(), bytes.size())), "m.safetensors");
}
std::string error_of(const std::string& bytes, ErrorCode code = ErrorCode::data_corrupt) {
  try {
    parse(bytes);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_THAT(e.what(), testing::StartsWith("m.safetensors: "));
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "no error";
}

const std::string kA = R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]})";
const std::string kB = R"("b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]})";

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const std::string bytes =
      file_of("{ \"__metadata__\" : {\"format\":\"p\\u00e9\\ud83d\\ude00\\n\"}," + kB + "," + kA +
                  ", \"empty\":{\"shape\":[0,7],\"data_offsets\":[10,10],\"dtype\":\"F16\"}}   ",
              10);
  const SafetensorsContent content = parse(bytes);
  EXPECT_EQ(content.metadata.at("format"), "p\xc3\xa9\xf0\x9f\x98\x80\n");
  ASSERT_EQ(content.tensors.size(), 3u);
  EXPECT_EQ(content.tensors[0].name, "a");
  EXPECT_EQ(content.tensors[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(content.tensors[0].bytes.size(), 8u);
  EXPECT_EQ(content.tensors[1].type, TensorType::bf16);
  EXPECT_EQ(content.tensors[1].elements(), 1);
  EXPECT_EQ(content.tensors[1].file_offset, bytes.size() - 2);
  EXPECT_EQ(content.tensors[2].rows(), 0);
  EXPECT_EQ(content.tensors[2].columns(), 7);
}

TEST(Safetensors, OtherTypesAreListed) {
  const auto content = parse(
      file_of("{" + kA + R"(,"mask":{"dtype":"BOOL","shape":[3],"data_offsets":[8,11]}})", 11));
  EXPECT_EQ(content.tensors.size(), 1u);
  ASSERT_EQ(content.unread.size(), 1u);
  EXPECT_EQ(content.unread[0].second, "BOOL");
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"Z9","shape":[1],"data_offsets":[0,1]}})", 1),
                       ErrorCode::unsupported),
              HasSubstr("tensor 'x': dtype 'Z9'"));
}

// Two rows of 128 columns: 2 blocks of 34 bytes each.
std::string block_file(const std::string& metadata, const std::string& shape = "[2,68]",
                       const std::string& dtype = "U8") {
  return file_of("{\"__metadata__\":{" + metadata + "},\"w\":{\"dtype\":\"" + dtype +
                     "\",\"shape\":" + shape + ",\"data_offsets\":[0,136]}}",
                 136);
}

TEST(Safetensors, BlockFormatsAreNamedInTheMetadata) {
  const SafetensorsContent content = parse(block_file(R"("format":"pt","strata.type.w":"I4_G64")"));
  ASSERT_EQ(content.tensors.size(), 1u);
  EXPECT_EQ(content.tensors[0].type, TensorType::i4_g64);
  EXPECT_EQ(content.tensors[0].shape, (std::vector<int64_t>{2, 128}));
  EXPECT_EQ(content.tensors[0].bytes.size(), 136u);
  EXPECT_TRUE(content.unread.empty());
  EXPECT_EQ(content.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_EQ(parse(block_file(R"("format":"pt")")).unread.size(), 1u);
  // Q8_0 is the int8 format with groups of 32.
  EXPECT_EQ(parse(block_file(R"("strata.type.w":"Q8_0")")).tensors[0].shape,
            (std::vector<int64_t>{2, 64}));
}

TEST(Safetensors, BlockFormatsThatDoNotFit) {
  EXPECT_THAT(error_of(block_file(R"("strata.type.v":"I4_G64")")), HasSubstr("no such tensor"));
  EXPECT_THAT(error_of(block_file(R"("strata.type.w":"I4_G96")"), ErrorCode::unsupported),
              HasSubstr("'I4_G96'"));
  EXPECT_THAT(error_of(block_file(R"("strata.type.w":"F32")"), ErrorCode::unsupported),
              HasSubstr("no block format"));
  EXPECT_THAT(error_of(block_file(R"("strata.type.w":"I4_G64")", "[4,34]", "I8")),
              HasSubstr("wanted U8"));
  EXPECT_THAT(error_of(block_file(R"("strata.type.w":"I8_G64")")), HasSubstr("blocks of 66 bytes"));
  EXPECT_EQ(parse(block_file(R"("strata.type.w":"I4_G64")", "[4,34]")).tensors[0].columns(), 64);
  // No rows, but rows that no file could hold.
  const std::string huge =
      R"({"__metadata__":{"strata.type.w":"Q2_K"},"w":{"dtype":"U8","shape":[0,4611686018427387840],)"
      R"("data_offsets":[0,0]}})";
  EXPECT_THAT(error_of(file_of(huge, 0)), HasSubstr("wanted U8 and whole blocks"));
}

TEST(Safetensors, LengthOfTheHeader) {
  EXPECT_THAT(error_of(""), HasSubstr("cut short"));
  EXPECT_THAT(error_of("1234567"), HasSubstr("cut short"));
  EXPECT_THAT(error_of(file_of("", 100)), HasSubstr("header length is 0"));
  const std::string good = file_of("{" + kA + "}", 8);
  for (uint64_t length : {1ull << 40, 1ull << 63, ~0ull, 150'000'000ull}) {
    std::string bytes = good;
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_THAT(error_of(bytes), HasSubstr("header length is " + std::to_string(length)));
  }
  for (size_t size = 0; size < good.size(); ++size) {
    const auto bytes = std::as_bytes(std::span(good.data(), size));
    const std::vector<std::byte> cut(bytes.begin(), bytes.end());  // exactly as long: no slack
    EXPECT_THROW(parse_safetensors(cut, "m"), Error) << size;
  }
}

TEST(Safetensors, FilesOfOtherKinds) {
  EXPECT_THAT(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
              HasSubstr("pointer file"));
  EXPECT_THAT(error_of("<!DOCTYPE html><html><body>404</body></html>"), HasSubstr("web page"));
  EXPECT_THAT(error_of("\n<HTML><body>404</body></html>"), HasSubstr("web page"));
  EXPECT_THAT(error_of(std::string("PK\x03\x04", 4) + std::string(300, '\0')), HasSubstr("zip"));
  EXPECT_THAT(error_of("\x80\x02}q\x01(X\x01"), HasSubstr("pickle"));
  EXPECT_THAT(error_of("GGUF\x03" + std::string(40, '\0')), HasSubstr("GGUF"));
}

TEST(Safetensors, HeaderMustBeStrictJson) {
  const auto of = [](const std::string& header) { return error_of(file_of(header, 8)); };
  EXPECT_THAT(of("this is no json"), HasSubstr("begins with 'this is no j"));
  EXPECT_THAT(of("[1,2]"), HasSubstr("wanted '{'"));
  EXPECT_THAT(of("{" + kA), HasSubstr("the end of the text"));
  EXPECT_THAT(of("{" + kA + "," + kA + "}"), HasSubstr("duplicate name 'a'"));
  EXPECT_THAT(of("{" + kA + "}garbage!"), HasSubstr("'garbage!' after the end"));
  EXPECT_THAT(of("{" + kA + ",}"), HasSubstr("wanted a string"));
  EXPECT_THAT(of("{\"q\xff\":1}"), HasSubstr("UTF-8"));
  EXPECT_THAT(of("{\"\\ud800\":1}"), HasSubstr("surrogate"));
  EXPECT_THAT(of("{\"a\nb\":1}"), HasSubstr("control character"));
  EXPECT_THAT(of("{\"\\x\":1}"), HasSubstr("escape"));
  EXPECT_THAT(of("{\"a\":" + std::string(100000, '[') + "}"), HasSubstr("wanted '{'"));
  EXPECT_THAT(of("{\"__metadata__\":" + std::string(100000, '[') + "}"), HasSubstr("wanted '{'"));
  EXPECT_THAT(of(R"({"__metadata__":{"a":3}})"), HasSubstr("wanted a string"));
  EXPECT_THAT(of(R"({"__metadata__":{"a":"1","a":"2"}})"), HasSubstr("duplicate name 'a'"));
}

TEST(Safetensors, Entries) {
  const auto of = [](const std::string& fields, size_t size = 8) {
    return error_of(file_of("{\"a\":{" + fields + "}}", size));
  };
  const std::string dtype = R"("dtype":"F32",)", offsets = R"(,"data_offsets":[0,8])";
  EXPECT_THAT(of(dtype + R"("shape":[NaN])" + offsets), HasSubstr("'NaN]"));
  EXPECT_THAT(of(dtype + R"("shape":[-2])" + offsets), HasSubstr("whole number"));
  EXPECT_THAT(of(dtype + R"("shape":[2.0])" + offsets), HasSubstr("whole number"));
  EXPECT_THAT(of(dtype + R"("shape":[02])" + offsets), HasSubstr("whole number"));
  EXPECT_THAT(of(dtype + R"("shape":[18446744073709551616])" + offsets), HasSubstr("64 bits"));
  EXPECT_THAT(of(dtype + R"("shape":[4294967296,4294967296])" + offsets), HasSubstr("overflows"));
  EXPECT_THAT(of(dtype + R"("shape":[4611686018427387904])" + offsets), HasSubstr("64 bits"));
  EXPECT_THAT(of(dtype + R"("shape":[3])" + offsets),
              HasSubstr("hold 8 bytes, shape and dtype F32 want 12"));
  EXPECT_THAT(of(dtype + R"("shape":[2],"data_offsets":[8,0])"), HasSubstr("data_offsets"));
  EXPECT_THAT(of(dtype + R"("shape":[2],"data_offsets":[0])"), HasSubstr("data_offsets"));
  EXPECT_THAT(of(dtype + R"("shape":[2],"data_offsets":[0,8,8])"), HasSubstr("data_offsets"));
  EXPECT_THAT(of(dtype + R"("shape":[2])"), HasSubstr("wanted dtype, shape and data_offsets"));
  EXPECT_THAT(of(dtype + R"("shape":[2],"extra":1)" + offsets), HasSubstr("unknown field 'extra'"));
  EXPECT_THAT(of(dtype + R"("shape":[2])" + offsets, 4), HasSubstr("cut short"));
  EXPECT_THAT(of(dtype + R"("shape":[2])" + offsets, 9), HasSubstr("the file has 9 bytes"));
}

TEST(Safetensors, NoHolesAndNoOverlaps) {
  const auto two = [](const std::string& begin, const std::string& end) {
    return error_of(file_of("{" + kA + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[)" +
                                begin + "," + end + "]}}",
                            16));
  };
  EXPECT_THAT(two("4", "8"), HasSubstr("overlaps"));
  EXPECT_THAT(two("12", "16"), HasSubstr("bytes belong to no tensor"));
}

TEST(Safetensors, NamesThatArePaths) {
  for (const char* name : {"../../outside", "/etc/x", "a/../b", "..", "a\\\\b", ""})
    EXPECT_THAT(error_of(file_of(std::string("{\"") + name +
                                     R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                                 8)),
                HasSubstr("tensor name"))
        << name;
  EXPECT_NO_THROW(parse(file_of(R"({"a/b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8)));
}

class SafetensorsFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("strata_safetensors_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  void write_shards() {
    write("m-1.safetensors", file_of("{" + kA + "}", 8));
    write("m-2.safetensors",
          file_of(R"({"c":{"dtype":"F16","shape":[3],"data_offsets":[0,6]}})", 6));
  }
  void write_index(const std::string& weight_map) {
    write("model.safetensors.index.json",
          R"({"metadata":{"total_size":14.0,"x":[null,true,{"y":-1e3}]},"weight_map":)" +
              weight_map + "}");
  }
  std::string error_of_folder() {
    try {
      open_model_files(folder_);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  fs::path folder_;
};

TEST_F(SafetensorsFolder, SingleFile) {
  EXPECT_THAT(error_of_folder(), HasSubstr("neither"));
  write("model.safetensors",
        file_of("{" + kA + R"(,"ids":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}})", 16));
  const auto store = open_model_files(folder_);
  ASSERT_NE(store->find("a"), nullptr);
  EXPECT_EQ(store->find("b"), nullptr);
  try {
    store->find("ids");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_THAT(e.what(), HasSubstr("tensor 'ids' has type I64"));
  }
  EXPECT_EQ(open_model_files(folder_ / "model.safetensors")->tensors().size(), 1u);
}

TEST_F(SafetensorsFolder, Shards) {
  write_shards();
  write_index(R"({"a":"m-1.safetensors","c":"m-2.safetensors"})");
  const auto store = open_model_files(folder_);
  EXPECT_EQ(store->files().size(), 2u);
  EXPECT_EQ(store->find("c")->file, 1);
  EXPECT_EQ(store->file_bytes(), fs::file_size(folder_ / "m-1.safetensors") +
                                     fs::file_size(folder_ / "m-2.safetensors"));
}

TEST_F(SafetensorsFolder, BadIndexes) {
  write_shards();
  const std::string c = R"("c":"m-2.safetensors")";
  write_index(R"({"a":"../m-1.safetensors"})");
  EXPECT_THAT(error_of_folder(), HasSubstr("wanted the plain name"));
  write_index(R"({"a":"m-2.safetensors",)" + c + "}");
  EXPECT_THAT(error_of_folder(), HasSubstr("tensor 'a' is in m-2.safetensors, it is not there"));
  write_index(R"({"a":"m-3.safetensors"})");
  EXPECT_THAT(error_of_folder(), HasSubstr("m-3.safetensors: no such file"));
  write_index("{" + c + "," + c + "}");
  EXPECT_THAT(error_of_folder(), HasSubstr("duplicate name 'c'"));
  write_index("{}");
  EXPECT_THAT(error_of_folder(), HasSubstr("weight_map is missing or empty"));
  write_index(std::string(100000, '['));
  EXPECT_THAT(error_of_folder(), HasSubstr("JSON at byte offset"));
  write("model.safetensors.index.json", R"({"x":)" + std::string(100000, '['));
  EXPECT_THAT(error_of_folder(), HasSubstr("nested deeper than"));
}

TEST_F(SafetensorsFolder, OtherPaths) {
  EXPECT_THROW(open_model_files(folder_ / "none.gguf"), Error);
  write("notes.txt", "hello");
  EXPECT_THROW(open_model_files(folder_ / "notes.txt"), Error);
}

TEST_F(SafetensorsFolder, WriterAndReaderAgree) {
  const std::vector<float> f32 = {1, 2, 3, 4, 5, 6};
  const std::vector<uint16_t> bf16 = {0x3f80};
  const std::vector<SafetensorsTensor> tensors = {
      {"z\"\xc3\xa9", TensorType::f32, {2, 3}, std::as_bytes(std::span(f32))},
      {"scalar", TensorType::bf16, {}, std::as_bytes(std::span(bf16))},
      {"none", TensorType::f16, {0}, {}}};
  write_safetensors(folder_ / "model.safetensors", tensors, {{"format", "pt"}, {"a\n", "\"b\""}});
  const auto store = open_safetensors(folder_);
  EXPECT_EQ(store->metadata().at("a\n"), "\"b\"");
  const StoredTensor* z = store->find("z\"\xc3\xa9");
  ASSERT_NE(z, nullptr);
  EXPECT_EQ(z->file_offset % 8, 0u);
  EXPECT_EQ(std::memcmp(z->bytes.data(), f32.data(), 24), 0);
  EXPECT_EQ(store->find("none")->elements(), 0);
}

TEST_F(SafetensorsFolder, BlockFormatsComeBack) {
  std::vector<std::byte> blocks(4 * 68);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(i);
  const std::vector<float> norm = {1, 2};
  write_safetensors(folder_ / "model.safetensors",
                    std::vector<SafetensorsTensor>{
                        {"w", TensorType::i4z_g128, {2, 256}, blocks},
                        {"norm", TensorType::f32, {2}, std::as_bytes(std::span(norm))}},
                    {{"format", "pt"}});
  const auto store = open_safetensors(folder_);
  const StoredTensor* w = store->find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->type, TensorType::i4z_g128);
  EXPECT_EQ(w->shape, (std::vector<int64_t>{2, 256}));
  EXPECT_EQ(std::memcmp(w->bytes.data(), blocks.data(), blocks.size()), 0);
  EXPECT_EQ(store->find("norm")->type, TensorType::f32);
  EXPECT_EQ(store->metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
}

TEST_F(SafetensorsFolder, WritesFilesWithoutTensors) {
  write_safetensors(folder_ / "model.safetensors", {}, {{"kind", "config"}});
  EXPECT_EQ(open_safetensors(folder_)->metadata().at("kind"), "config");
  write_safetensors(folder_ / "model.safetensors", {});
  EXPECT_TRUE(open_safetensors(folder_)->tensors().empty());
  EXPECT_EQ(safetensors_header({}, {}), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST_F(SafetensorsFolder, WriterRefusesWhatCouldNotBeRead) {
  const std::vector<float> f32 = {1, 2};
  const auto bytes = std::as_bytes(std::span(f32));
  const auto refused = [&](std::vector<SafetensorsTensor> tensors,
                           const std::map<std::string, std::string>& metadata = {}) {
    EXPECT_THROW(write_safetensors(folder_ / "x.safetensors", tensors, metadata), Error);
    EXPECT_TRUE(fs::is_empty(folder_));
  };
  refused({{"__metadata__", TensorType::f32, {2}, bytes}});
  refused({{"a", TensorType::f32, {2}, bytes}, {"a", TensorType::f32, {2}, bytes}});
  refused({{"../a", TensorType::f32, {2}, bytes}});
  refused({{"a", TensorType::f32, {3}, bytes}});
  refused({{"a", TensorType::f32, {-2}, bytes}});
  refused({{"a", TensorType::q8_0, {2}, bytes}});
  refused({}, {{"strata.type.a", "Q8_0"}});
  refused({}, {{"a", "\xff"}});
  refused({}, {{"a", std::string(kMaxSafetensorsHeader, 'x')}});
}

}  // namespace
}  // namespace strata
