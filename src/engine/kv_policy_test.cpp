#include "engine/kv_policy.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace strata {
namespace {

TEST(KvPolicy, IsSpelledAsItIsRead) {
  for (const char* text : {"full", "window=1", "window=4096", "sinks=4,window=1020"})
    EXPECT_EQ(kv_policy_name(parse_kv_policy(text, "--kv-policy")), text);
  const KvPolicy policy = parse_kv_policy("sinks=4,window=1020", "--kv-policy");
  EXPECT_EQ(policy.sinks, 4);
  EXPECT_EQ(policy.window, 1020);
  EXPECT_TRUE(parse_kv_policy("full", "--kv-policy").is_full());
}

TEST(KvPolicy, RefusesOtherSpellings) {
  for (const char* text :
       {"", "Full", "window", "window=", "window=0", "window=-3", "window=4x", "window=4,",
        "sinks=4", "sinks=0,window=4", "window=4,sinks=4", "sinks=4,window=9999999999",
        "sinks=4,window=99999999999999999999", "sinks=4, window=8", "window=4,window=5"}) {
    try {
      parse_kv_policy(text, "--kv-policy");
      FAIL() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(std::string(e.what()).find("--kv-policy: got '"), 0u) << e.what();
    }
  }
}

}  // namespace
}  // namespace strata
