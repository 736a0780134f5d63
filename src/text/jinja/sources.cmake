# The chat template engine, part of strata_text.
set(JINJA_SOURCES
  chat_template.cpp jinja/arithmetic.cpp jinja/attributes.cpp jinja/builtin.cpp jinja/evaluator.cpp
  jinja/expression_parser.cpp jinja/filters.cpp jinja/format.cpp jinja/format_method.cpp
  jinja/frames.cpp jinja/functions.cpp jinja/interpreter.cpp jinja/json_text.cpp jinja/json_value.cpp
  jinja/lexer.cpp jinja/loop.cpp jinja/macro.cpp jinja/marked_text.cpp jinja/methods.cpp jinja/names.cpp
  jinja/operations.cpp jinja/parser.cpp jinja/repr.cpp jinja/runtime.cpp
  jinja/sequence_filters.cpp jinja/sorting_filters.cpp jinja/string_literal.cpp jinja/tests.cpp
  jinja/text_filters.cpp jinja/text_functions.cpp jinja/unicode.cpp jinja/value.cpp
  jinja/value_filters.cpp)
set(JINJA_TESTS chat_template_test.cpp chat_template_golden_test.cpp)
