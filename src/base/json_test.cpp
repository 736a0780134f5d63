#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"

namespace strata {
namespace {

// The message of the refusal, the same from both parsers; "" if either takes the text.
std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  std::string first;
  try {
    parse_json(text, limits);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    first = e.what();
  }
  try {
    parse_ordered_json(text, limits);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(first, e.what());
  }
  return first;
}

std::string repeat(std::string_view what, size_t times) {
  std::string out;
  out.reserve(what.size() * times);
  for (size_t i = 0; i < times; ++i) out += what;
  return out;
}

TEST(Json, ReadsEveryKindOfValue) {
  const Json v = parse_json(R"( {"a":[1,-2,2.5,true,false,null,"x\u00e9\n"],"b":{}} )");
  EXPECT_EQ(v["a"][0], 1);
  EXPECT_EQ(v["a"][1], -2);
  EXPECT_EQ(v["a"][2], 2.5);
  EXPECT_EQ(v["a"][3], true);
  EXPECT_TRUE(v["a"][5].is_null());
  EXPECT_EQ(v["a"][6], "x\xC3\xA9\n");
  EXPECT_TRUE(v["b"].empty());
  EXPECT_EQ(parse_json("7"), 7);
  EXPECT_EQ(parse_json("\xEF\xBB\xBF[1]"), Json::array({1}));
}

TEST(Json, OrderedKeepsTheOrderOfKeys) {
  const std::string text = R"({"z":1,"a":{"y":[{"k":0,"b":1}],"c":2}})";
  EXPECT_EQ(to_json_text(parse_ordered_json(text)), text);
}

TEST(Json, Numbers) {
  EXPECT_EQ(parse_json("18446744073709551615").get<uint64_t>(),
            std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parse_json("-9223372036854775808").get<int64_t>(), std::numeric_limits<int64_t>::min());
  const Json big = parse_json("1000000000000000019884624838656");
  EXPECT_FALSE(big.is_number_integer());
  EXPECT_EQ(big.get<double>(), 1e30);
  EXPECT_EQ(parse_json("1e-999").get<double>(), 0.0);
  EXPECT_TRUE(std::signbit(parse_json("-0.0").get<double>()));
  EXPECT_EQ(refusal("[1e400]"), "JSON: a number is too large for a double at byte 5");
  EXPECT_NE(refusal(repeat("9", 1'000'000)), "");
  for (const char* text : {"NaN", "[NaN]", "Infinity", "-Infinity", "[-inf]", "01", "+1", ".5",
                           "1.", "1e", "0x10", "-"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
}

TEST(Json, TextThatIsNoJson) {
  EXPECT_EQ(refusal("{\"a\":tru}"),
            "JSON: syntax error while parsing value - invalid literal at byte 8");
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1",
                           "\"x",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{a:1}",
                           "{'a':1}",
                           "[1,]",
                           "{\"a\":1,}",
                           "[1 2]",
                           "{}x",
                           "{}{\"a\":1}",
                           "{}]",
                           "{\"a\":1/* x */}",
                           "// x\n1",
                           "\"\\x41\"",
                           "\"\\u00",
                           "\"a\nb\"",
                           "nul",
                           "\xEF\xBB[1]",
                           "\xEF\xBB\xBF\xEF\xBB\xBF[1]"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
}

TEST(Json, ZeroBytes) {
  // Escaped it is an ordinary character; raw it is an error, also after the value.
  EXPECT_EQ(parse_json(R"("a\u0000b")").get<std::string>(), std::string("a\0b", 3));
  EXPECT_EQ(refusal(std::string("{}\0x", 4)), "JSON: a zero byte at byte 2");
  EXPECT_NE(refusal(std::string("[\"a\0\"]", 6)), "");
}

TEST(Json, SurrogatesAndUtf8) {
  EXPECT_EQ(parse_json(R"("\ud83d\ude00")").get<std::string>(), "\xF0\x9F\x98\x80");
  for (const char* text : {R"("emoji \ud83d")", R"("x \ude00 y")", R"("\ude00\ud83d")",
                           R"("\ud83dx")", R"({"\ud83d":1})", R"("\ud83d\n")"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
  EXPECT_EQ(refusal("{\"a\":\"b\xC3(\"}"),
            "JSON: syntax error while parsing value - invalid string: ill-formed UTF-8 byte at "
            "byte 8");
  for (const char* bytes : {"\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xFF"}) {
    EXPECT_NE(refusal("\"" + std::string(bytes) + "\""), "");
  }
}

TEST(Json, DuplicateKeys) {
  EXPECT_EQ(refusal(R"({"a":1,"b":2,"a":3})"), "JSON: key \"a\" appears twice at byte 15");
  EXPECT_NE(refusal(R"({"o":{"a":1,"\u0061":2}})"), "");
  EXPECT_EQ(refusal(R"({"a":{"a":1},"b":[{"a":1},{"a":1}]})"), "");
  const std::string key = repeat("\xC3\xA9", 1000);
  const std::string message = refusal("{\"" + key + "\":1,\"" + key + "\":1}");
  EXPECT_LT(message.size(), 150u);  // a long key is cut
}

TEST(Json, DepthIsRefusedAtTheLimit) {
  const JsonLimits limits{.max_depth = 3};
  EXPECT_EQ(refusal("[[[1]],{\"a\":{}}]", limits), "");
  EXPECT_EQ(refusal("[[[[", limits), "JSON: nesting deeper than 3 at byte 3");
  EXPECT_NE(refusal("{\"a\":{\"a\":{\"a\":{}}}}", limits), "");
  EXPECT_NE(refusal(repeat("[", 100'000) + repeat("]", 100'000)), "");
  EXPECT_NE(refusal(repeat("{\"a\":", 50'000) + "1" + repeat("}", 50'000)), "");
}

TEST(Json, ObjectsWithManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 50'000; ++i) text += fmt::format("\"{}\":{},", i, i);
  text.back() = '}';
  EXPECT_NE(refusal(text).find("more than 4096 keys"), std::string::npos);
  // Linear also for ordered objects: with the library's own parser this takes seconds.
  const OrderedJson v = parse_ordered_json(text, {.max_keys_per_object = 50'000});
  EXPECT_EQ(v.size(), 50'000u);
  EXPECT_EQ(to_json_text(v), text);
  EXPECT_EQ(parse_json(text, {.max_keys_per_object = 50'000}).size(), 50'000u);
}

TEST(Json, ValuesAreCounted) {
  EXPECT_EQ(refusal("[1,2,3]", {.max_values = 4}), "");
  EXPECT_EQ(refusal("[1,2,3,4]", {.max_values = 4}), "JSON: more than 4 values at byte 8");
}

TEST(Json, WritingNeverThrows) {
  EXPECT_EQ(to_json_text(Json("a\xC3(b")), "\"a\xEF\xBF\xBD(b\"");
  EXPECT_EQ(to_json_text(OrderedJson{{"b", std::nan("")}, {"a", 1}}), R"({"b":null,"a":1})");
}

}  // namespace
}  // namespace strata
