#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace strata::server {

// What the server does with a field of a request (docs/api.md).
enum class FieldClass : uint8_t {
  honoured,  // does what its name says
  neutral,   // accepted at the values that ask nothing of us, refused otherwise
  label,     // logged, documented as without effect
};

// One row of an endpoint's table of fields: what is accepted, and what /openapi.json says of it.
struct FieldSpec {
  std::string_view name;
  FieldClass field_class;
  std::string_view schema;          // JSON schema of the value
  std::string_view meaning;         // for people
  std::string_view neutral = "[]";  // JSON array of the values a neutral field may have
};

// A request's body, checked against its table: an object whose keys are all known and whose neutral
// fields ask nothing. null means absent everywhere. Getters throw ApiError naming the field.
class RequestFields {
 public:
  // lenient: unknown fields and neutral fields with other values are collected in ignored().
  RequestFields(Json body, std::span<const FieldSpec> table, bool lenient);

  const Json* find(std::string_view name) const;  // nullptr: absent or null
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const std::vector<std::string>& ignored() const { return ignored_; }

  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  // Whole numbers; 5.0 counts as 5.
  std::optional<int64_t> integer(std::string_view name, int64_t least, int64_t most) const;
  std::optional<double> number(std::string_view name, double least, double most) const;
  // A string or an array of strings.
  std::vector<std::string> texts(std::string_view name) const;

 private:
  Json body_;
  std::vector<std::string> ignored_;
};

// The whole number that `value` is; nullopt for anything else.
std::optional<int64_t> whole_number(const Json& value);

}  // namespace strata::server
