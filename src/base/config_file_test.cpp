#include "base/config_file.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace strata {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_config(text, "f.toml");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.what();
  }
  return "";
}

TEST(ConfigFile, ReadsFlatAndNestedKeys) {
  const auto entries = parse_config(
      "port = 8080\n"
      "# a comment\n"
      "host = \"::1\"\n"
      "model = ['a=x.gguf', \"b=y.gguf\"]\n"
      "[train]\n"
      "lr = 3e-4\n"
      "big = 0xff\n"
      "resume = true\n",
      "f.toml");
  ASSERT_EQ(entries.size(), 6u);
  const auto is = [](const ConfigEntry& e, std::string_view key, std::string_view value, int line) {
    return e.key == key && !e.is_list && e.values.size() == 1 && e.values[0] == value &&
           e.line == line;
  };
  EXPECT_TRUE(is(entries[0], "port", "8080", 1));
  EXPECT_TRUE(is(entries[1], "host", "::1", 3));
  EXPECT_EQ(entries[2].values, (std::vector<std::string>{"a=x.gguf", "b=y.gguf"}));
  EXPECT_TRUE(entries[2].is_list);
  EXPECT_TRUE(is(entries[3], "train.lr", "0.0003", 6));
  EXPECT_TRUE(is(entries[4], "train.big", "255", 7));
  EXPECT_TRUE(is(entries[5], "train.resume", "true", 8));
  EXPECT_TRUE(parse_config("", "f.toml").empty());
}

TEST(ConfigFile, RefusesNamingTheLine) {
  for (const char* text : {"a = 1\nb =\n", "a = 1\na = 2\n", "\nwhen = 2024-01-01\n",
                           "\na = [[1]]\n", "\na = nan\n", "\na = -inf\n", "\n[[t]]\nx = 1\n",
                           "\na = [{b = 1}]\n", "\na = 1e999\n", "\n\"a\xC3(\" = 1\n", "\na 1\n"}) {
    EXPECT_EQ(refusal(text).substr(0, 9), "f.toml:2:") << text << refusal(text);
  }
  EXPECT_NE(refusal("a = " + std::string(100'000, '[')), "");
}

TEST(ConfigFile, CharactersOutsideAscii) {
  const auto entries = parse_config(
      "\xEF\xBB\xBF"
      "a = \"\u00e9\\\"\u0416\" # \u00a1\n"
      "'\u0416' = '\u00e9\\'\n"
      "b = \"\"\"\n\"\u00e9\"\n\\\"\"\"\u00e9\"\"\"\n"
      "c = '''it's \u00e9'''\n",
      "f.toml");
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].values[0], "\u00e9\"\u0416");
  EXPECT_EQ(entries[1].key, "\u0416");
  EXPECT_EQ(entries[2].values[0], "\"\u00e9\"\n\"\"\"\u00e9");
  EXPECT_EQ(entries[3].values[0], "it's \u00e9");
  // Without quotes they are refused, wherever they stand.
  for (const char* text :
       {"\n\u00a1 = 1\n", "\nb = 1\u047f", "\n[\u00e9]\nx = 1\n", "\nx = 1\u047fT01:$0:00Z\n",
        "# \u00e9\nb = \"c\" \u00a0\n", "a = 'b'\n\u2003b = 1\n", "\nb = \xff\n"}) {
    EXPECT_EQ(refusal(text).substr(0, 9), "f.toml:2:") << text << refusal(text);
  }
}

TEST(ConfigFile, UnknownKeys) {
  const auto entries = parse_config("port = 1\n\nprot = 2\n", "f.toml");
  const std::string_view known[] = {"host", "port"};
  try {
    require_known_keys(entries, known, "f.toml");
    FAIL() << "an unknown key passed";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "f.toml:3: unknown key prot");
  }
}

TEST(ConfigFile, FilesThatAreNotThere) {
  for (const char* path : {"/no/such/file.toml", "/"}) {
    try {
      read_config_file(path);
      FAIL() << path;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::not_found);
    }
  }
  EXPECT_TRUE(read_config_file("/dev/null").empty());
}

}  // namespace
}  // namespace strata
