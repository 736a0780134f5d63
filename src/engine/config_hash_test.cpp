#include "engine/config_hash.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

RunConfig sample() {
  RunConfig config;
  config.build_id = "0123";
  config.isa = IsaLevel::avx2;
  config.model_hash = "abcd";
  config.kv_type = KvType::f16;
  config.flags = {{"batch-tokens", "256"}};
  return config;
}

// printf 'strata config 1\nbuild=0123\nisa=avx2\nmodel=abcd\nkv-type=f16\nbatch-tokens=3:256\n' |
// sha256sum
TEST(ConfigHash, IsTheSumOfItsText) {
  EXPECT_EQ(config_hash(sample()),
            "c3a57aa7c2fa3998b12f69763b5b667673c32ee7ec3c277f6f6e2596e75c5b24");
}

TEST(ConfigHash, EveryPartCounts) {
  const std::string same = config_hash(sample());
  RunConfig c = sample();
  c.build_id = "0124";
  EXPECT_NE(config_hash(c), same);
  c = sample();
  c.isa = IsaLevel::scalar;
  EXPECT_NE(config_hash(c), same);
  c = sample();
  c.model_hash = "abce";
  EXPECT_NE(config_hash(c), same);
  c = sample();
  c.kv_type = KvType::f32;
  EXPECT_NE(config_hash(c), same);
  c = sample();
  c.flags.clear();
  EXPECT_NE(config_hash(c), same);
  c = sample();
  c.flags["strict"] = "true";
  EXPECT_NE(config_hash(c), same);
}

TEST(ConfigHash, ThisRunKnowsItsBinaryItsActivationsAndItsPages) {
  const RunConfig usual = this_run("abcd", KvType::f16);
  EXPECT_FALSE(usual.build_id.empty());
  EXPECT_EQ(usual.isa, isa_level());
  EXPECT_TRUE(usual.flags.empty());
  EXPECT_NE(config_hash(this_run("abcd", KvType::f16, Activations::int8x2)), config_hash(usual));
  EXPECT_EQ(this_run("abcd", KvType::f16, Activations::int8, 32).flags,
            (std::map<std::string, std::string>{{"page-size", "32"}}));
}

// A value cannot pass for another flag.
TEST(ConfigHash, ValuesAreDelimited) {
  RunConfig a = sample(), b = sample();
  a.flags = {{"a", "1\nb=1:2"}};
  b.flags = {{"a", "1"}, {"b", "2"}};
  EXPECT_NE(config_hash(a), config_hash(b));
}

}  // namespace
}  // namespace strata
