#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/chat_template.h"

// Compares with what Python's jinja2 gave (tools/oracle/chat_templates.py). STRATA_TEMPLATE_CASES
// names another folder of such files.
namespace strata {
namespace {

OrderedJson member(const OrderedJson& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? OrderedJson() : *found;
}

struct Outcome {
  std::string kind;  // text, parse, raised or render
  std::string text;
};

Outcome outcome_of(const OrderedJson& one, const OrderedJson& provenance) {
  const OrderedJson& given = one.at("inputs");
  ChatTemplateInputs inputs;
  inputs.messages = given.contains("messages") ? given["messages"] : OrderedJson::array();
  inputs.tools = member(given, "tools");
  inputs.extra = member(given, "extra");
  inputs.bos_token = provenance.at("bos_token").get<std::string>();
  inputs.eos_token = provenance.at("eos_token").get<std::string>();
  inputs.add_generation_prompt = given.value("add_generation_prompt", true);
  inputs.unix_time = provenance.at("unix_time").get<int64_t>();
  std::unique_ptr<ChatTemplate> compiled;
  try {
    compiled =
        std::make_unique<ChatTemplate>(ChatTemplate::parse(one.at("template").get<std::string>()));
  } catch (const Error& error) {
    const bool expected_code =
        error.code() == ErrorCode::data_corrupt || error.code() == ErrorCode::unsupported;
    return {expected_code ? "parse" : "parse with a wrong code", error.what()};
  }
  try {
    const RenderedPrompt prompt = compiled->render(inputs);
    EXPECT_EQ(prompt.text.size(), prompt.from_template.size());
    return {"text", prompt.text};
  } catch (const Error& error) {
    const std::string message = error.what();
    const bool ours = message.rfind("chat template: line ", 0) == 0;
    return {ours ? "render" : "raised", message};
  }
}

OrderedJson load(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return OrderedJson::parse(text.str());
}

TEST(ChatTemplateGolden, EqualsJinja2) {
  const char* other = std::getenv("STRATA_TEMPLATE_CASES");
  const std::filesystem::path folder = other != nullptr ? other : "tests/golden/chat_templates";
  int compared = 0, different = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const OrderedJson golden = load(file.path());
    OrderedJson one;
    std::map<std::string, OrderedJson> inputs;  // by the name of the first case that has them
    for (const OrderedJson& next : golden.at("cases")) {
      // A case without a template has that of the case before it; inputs_of names a case.
      const auto source =
          (next.contains("template") ? next : one).at("template").get<std::string>();
      one = next;
      one["template"] = source;
      if (one.contains("inputs_of")) {
        one["inputs"] = inputs.at(one["inputs_of"].get<std::string>());
      } else {
        inputs[one.at("name").get<std::string>()] = one.at("inputs");
      }
      const Outcome got = outcome_of(one, golden.at("provenance"));
      const bool is_text = one.contains("expected");
      const std::string kind = is_text ? "text" : one.at("error").get<std::string>();
      const bool has_words = is_text || kind == "raised";
      const std::string words = one.value(is_text ? "expected" : "message", "");
      ++compared;
      if (got.kind == kind && (!has_words || got.text == words)) continue;
      ++different;
      if (different <= 40) {
        ADD_FAILURE() << one.at("name") << "\n template: " << one.at("template").dump()
                      << "\n wanted " << kind << ": " << words << "\n got " << got.kind << ": "
                      << got.text;
      }
    }
  }
  EXPECT_GE(compared, 100);
  RecordProperty("compared", compared);
  std::cout << "compared " << compared << ", different " << different << "\n";
  EXPECT_EQ(different, 0);
}

}  // namespace
}  // namespace strata
