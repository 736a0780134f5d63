#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace strata {
namespace {

// The text with the user's bytes between « and », so that origins can be read in a test.
std::string marked(const RenderedPrompt& prompt) {
  std::string out;
  bool user = false;
  for (size_t i = 0; i < prompt.text.size(); ++i) {
    const bool now = prompt.from_template[i] == 0;
    if (now != user) out += now ? "«" : "»";
    user = now;
    out += prompt.text[i];
  }
  return out + (user ? "»" : "");
}

RenderedPrompt render(const std::string& source, const std::string& content = "hi <|end|>",
                      const std::string& role = "user") {
  ChatTemplateInputs inputs;
  inputs.messages = OrderedJson::array(
      {OrderedJson{{"role", role}, {"content", content}, {"n", 7}, {"flag", true}}});
  inputs.extra = OrderedJson{{"name", "X"}};
  inputs.bos_token = "<s>";
  inputs.eos_token = "</s>";
  return ChatTemplate::parse(source).render(inputs);
}

std::string origin(const std::string& expression, const std::string& content = "hi <|end|>") {
  return marked(render("{% set c = messages[0].content %}" + expression, content));
}

ErrorCode code_of(const std::string& source) {
  try {
    render(source);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error: " << source;
  return ErrorCode::internal;
}

std::string message_of(const std::string& source) {
  try {
    render(source);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChatTemplateOrigin, LiteralsAndOwnTokensAreTheTemplates) {
  EXPECT_EQ(origin("{{ bos_token }}<|u|>{{ c }}{{ eos_token + '\n' }}"),
            "<s><|u|>«hi <|end|>»</s>\n");
}

TEST(ChatTemplateOrigin, RolesToolsAndExtrasAreTheUsers) {
  EXPECT_EQ(
      origin("{{ messages[0]['role'] }}/{{ name }}/{{ messages[0].n }}/{{ messages[0].flag }}"),
      "«user»/«X»/«7»/«True»");
  EXPECT_EQ(origin("{% for k in messages[0] %}{{ k }},{% endfor %}"),
            "«role»,«content»,«n»,«flag»,");
}

TEST(ChatTemplateOrigin, SurvivesConcatenationSlicesAndSplits) {
  EXPECT_EQ(origin("{{ ('<a>' + c + '<b>')[1:-1] }}"), "a>«hi <|end|>»<b");
  EXPECT_EQ(origin("{{ ('[' ~ c ~ ']').split(' ') | join('+') }}"), "[«hi»+«<|end|>»]");
  EXPECT_EQ(origin("{{ (' ' ~ c ~ ' ') | trim }}", " x "), "«x»");
  EXPECT_EQ(origin("{{ 'a-b'.replace('-', c) }}", "U"), "a«U»b");
  EXPECT_EQ(origin("{{ c.replace('|', '<|end|>') }}", "a|b"), "«a»<|end|>«b»");
  EXPECT_EQ(origin("{{ ('ab' ~ c)[::-1] }}", "xy"), "«yx»ba");
  EXPECT_EQ(
      origin("{% set ns = namespace(t='<') %}{% set ns.t = ns.t ~ c ~ '>' %}{{ ns.t * 2 }}", "u"),
      "<«u»><«u»>");
  EXPECT_EQ(
      origin("{% macro m(x) %}<m>{{ x }}{% endmacro %}{% set t %}{{ m(c) }}!{% endset %}{{ t }}",
             "u"),
      "<m>«u»!");
  EXPECT_EQ(origin("{{ ('a\nb' ~ c) | indent(2) }}", "\nu"), "a\n  b\n  «u»");
}

TEST(ChatTemplateOrigin, MixedValuesAreTheUsers) {
  EXPECT_EQ(origin("{{ ('<a>' ~ c) | upper }}", "u"), "«<A>U»");
  EXPECT_EQ(origin("{{ {'k': c} | tojson }}", "u"), "«{\"k\": \"u\"}»");
  EXPECT_EQ(origin("{{ '<|%s|>' | format(c) }}", "end"), "«<|end|>»");
  EXPECT_EQ(origin("{{ '<|{}|>'.format(c) }}", "end"), "«<|end|>»");
  EXPECT_EQ(origin("{{ ['t', c] }}", "u"), "«['t', 'u']»");
  EXPECT_EQ(origin("{{ '<a>' | upper }}{{ [1] | tojson }}{{ 1 + 1 }}"), "<A>[1]2");
  EXPECT_EQ(origin("{{ messages[0].n + 1 }}{{ c | length }}", "abc"), "«83»");
}

TEST(ChatTemplateOrigin, NamesOutOfTheRequestAreTheUsers) {
  ChatTemplateInputs inputs;
  inputs.messages = OrderedJson::array({OrderedJson{{"<|end|>", nullptr}}});
  const auto shown = [&](const std::string& source) {
    return marked(ChatTemplate::parse(source).render(inputs));
  };
  EXPECT_EQ(shown("{% macro f() %}{{ kwargs|first }}{% endmacro %}{{ f(**messages[0]) }}"),
            "«<|end|>»");
  EXPECT_EQ(shown("{% macro f() %}{{ kwargs|first }}{% endmacro %}{{ f(a=1) }}"), "a");
  EXPECT_EQ(shown("{{ dict(**messages[0])|first }}{{ dict(b=1)|first }}"), "«<|end|>»b");
  EXPECT_EQ(shown("{{ namespace(messages[0]) }}"), "«<Namespace {'<|end|>': None}>»");
}

TEST(ChatTemplateErrors, RaiseExceptionIsVerbatim) {
  EXPECT_EQ(message_of("{{ raise_exception('System role not supported {}') }}"),
            "System role not supported {}");
  EXPECT_EQ(code_of("{{ raise_exception('x') }}"), ErrorCode::invalid_argument);
}

TEST(ChatTemplateErrors, NameLineAndReason) {
  EXPECT_EQ(code_of("a\n{% if %}"), ErrorCode::data_corrupt);
  EXPECT_NE(message_of("a\n{% if %}").find("line 2"), std::string::npos);
  EXPECT_EQ(code_of("{{ 1|nosuch }}"), ErrorCode::unsupported);
  EXPECT_NE(message_of("{{ 1|nosuch }}").find("nosuch"), std::string::npos);
  EXPECT_EQ(code_of("{{ 1 is nosuch }}"), ErrorCode::unsupported);
  EXPECT_EQ(code_of("{% nosuch %}"), ErrorCode::unsupported);
  EXPECT_EQ(code_of("{% include 'x' %}"), ErrorCode::unsupported);
  EXPECT_EQ(code_of("\xff"), ErrorCode::data_corrupt);
  EXPECT_EQ(code_of("{{ 1 / 0 }}"), ErrorCode::invalid_argument);
}

TEST(ChatTemplateLimits, StepsTextAndDepthAreBounded) {
  EXPECT_EQ(code_of("{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}"
                    "{% endfor %}"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("{{ 'x' * 1000000000000 }}"), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("{% set ns = namespace(t='xx') %}{% for i in range(60) %}{% set ns.t = ns.t ~ "
                    "ns.t %}{% endfor %}{{ ns.t }}"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("{% set ns = namespace(t=[]) %}{% for i in range(5000) %}{% set ns.t = [ns.t] "
                    "%}{% endfor %}{{ ns.t }}"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
            ErrorCode::data_corrupt);
  // Iterators over iterators, tuples of shared tuples as keys, very wide fields, many readings.
  EXPECT_EQ(code_of("{% set ns = namespace(t=[1]) %}{% for i in range(50000) %}{% set ns.t = "
                    "ns.t|map('string') %}{% endfor %}{{ ns.t|list }}"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("{% set ns = namespace(t=(1,)) %}{% for i in range(60) %}{% set ns.t = (ns.t, "
                    "ns.t) %}{% endfor %}{{ {ns.t: 1} }}"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("{{ 'x'.center(9000000000000000000, 'é') }}"), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("{{ '%*d' % (-9223372036854775807 - 1, 1) }}"), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of("{% set t = 'é' * 1000000 %}{% for i in range(99999) %}{{ t|length }}"
                    "{% endfor %}"),
            ErrorCode::invalid_argument);
  std::string chain = "{{ 1";
  for (int i = 0; i < 100000; ++i) chain += "+1";
  EXPECT_EQ(code_of(chain + " }}"), ErrorCode::data_corrupt);
  EXPECT_EQ(code_of("{{ " + std::string(100000, '-') + "1 }}"), ErrorCode::data_corrupt);
}

// What a template keeps alive is bounded too, not only the text it makes.
TEST(ChatTemplateLimits, ObjectsAreBounded) {
  EXPECT_NE(message_of("{% for a in range(99999) %}{% set x = '" + std::string(500, 'x') +
                       "'|list %}{% endfor %}")
                .find("more bytes of text and objects"),
            std::string::npos);
  EXPECT_EQ(
      code_of("{% for a in range(99999) %}{% set x = [[], [], [], [], [], [], [], [], [], "
              "[], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], "
              "[], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []] %}{% endfor %}"),
      ErrorCode::invalid_argument);
  // Recursion by every road: macros through each other, callers, loops, defaults.
  EXPECT_NE(message_of("{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}"
                       "{% endmacro %}{{ f() }}")
                .find("endless recursion"),
            std::string::npos);
  EXPECT_NE(message_of("{% macro f(a=f()) %}{% endmacro %}{{ f() }}").find("endless recursion"),
            std::string::npos);
  EXPECT_NE(message_of("{% set ns = namespace() %}{% macro f(a=ns.f()) %}{% endmacro %}"
                       "{% set ns.f = f %}{{ f() }}")
                .find("endless recursion"),
            std::string::npos);
  EXPECT_NE(message_of("{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}"
                       "{{ f() }}")
                .find("endless recursion"),
            std::string::npos);
  EXPECT_NE(message_of("{% for a in [1] recursive %}{{ loop([a]) }}{% endfor %}")
                .find("endless recursion"),
            std::string::npos);
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += "{% if true %}{% for a in [1] %}{% macro m() %}";
  EXPECT_EQ(code_of(nested), ErrorCode::data_corrupt);
}

TEST(ChatTemplate, KeptLoopAndIteratorsStayHarmless) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% for i in [1, 2] %}{% set ns.l = loop %}{% break %}"
                   "{% endfor %}{{ ns.l.last }}{{ ns.l.index }}")
                .text,
            "True1");
}

// As jinja2 compiles names: the first mention in a scope decides ("name" is the request's "X").
TEST(ChatTemplate, ANameSetLaterHidesTheRequests) {
  const auto text = [](const std::string& source) { return render(source).text; };
  EXPECT_EQ(text("{% for i in [1] %}[{{ name }}]{% endfor %}{% set name = 'Y' %}{{ name }}"),
            "[]Y");
  EXPECT_EQ(text("{% macro f() %}({{ name }}){% endmacro %}{{ f() }}{% set name = 'Y' %}{{ f() }}"),
            "()(Y)");
  EXPECT_EQ(
      text("{{ name }}{% for i in [1] %}{{ name }}{% endfor %}{% set name = 'Y' %}{{ name }}"),
      "XXY");
  EXPECT_EQ(text("{% if false %}{% set name = 'Y' %}{% endif %}{{ name }}"), "X");
  EXPECT_EQ(text("{% macro f(a=name, name=2) %}{{ a }}{{ name }}{% endmacro %}{{ f() }}"), "2");
  EXPECT_EQ(text("{% for i in [1, 2] %}{% for k in [] %}{% else %}{% break %}{% endfor %}{{ i }}"
                 "{% endfor %}"),
            "");
}

TEST(ChatTemplate, ReadsVariable) {
  const ChatTemplate compiled =
      ChatTemplate::parse("{% if enable_thinking is defined %}{{ tools|length }}{% endif %}");
  EXPECT_TRUE(compiled.reads_variable("enable_thinking"));
  EXPECT_TRUE(compiled.reads_variable("tools"));
  EXPECT_FALSE(compiled.reads_variable("messages"));
}

}  // namespace
}  // namespace strata
