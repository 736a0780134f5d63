#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "io/gguf_metadata.h"

namespace strata {

// Typed, bounded access to the keys of a model's configuration, GGUF metadata or config.json alike,
// that remembers which keys were asked for: what nobody asked for is inert or unknown.
// `find_...` gives nothing for an absent key (in JSON also for null). A value of the wrong type or
// out of bounds throws data_corrupt; refuse() says the same of anything else that is wrong with a
// key; unsupported() is for mathematics that strata does not implement. All name file and key.
class KeyReader {
 public:
  virtual ~KeyReader() = default;

  std::optional<int64_t> find_integer(std::string_view key, int64_t least, int64_t most);
  std::optional<double> find_real(std::string_view key, double above, double most);
  std::optional<std::string> find_text(std::string_view key);
  std::optional<bool> find_flag(std::string_view key);
  int64_t get_integer(std::string_view key, int64_t least, int64_t most);
  bool contains(std::string_view key) const { return present(key); }

  // Throws unsupported unless the key is absent or its number is `neutral`.
  void want_neutral(std::string_view key, double neutral, std::string_view meaning);
  void want_neutral_flag(std::string_view key, bool neutral, std::string_view meaning);

  [[noreturn]] void refuse(std::string_view key, std::string_view problem) const;
  [[noreturn]] void unsupported(std::string_view key, std::string_view value,
                                std::string_view meaning) const;

  // As a message writes the key: "llama.block_count", "text_config.rope_scaling.factor".
  virtual std::string full_name(std::string_view key) const { return std::string(key); }
  virtual const std::string& file() const = 0;
  // Keys that were never asked for, in full, in order.
  std::vector<std::string> unread() const;
  void mark_read(std::string_view key) { read_.emplace(key); }

 protected:
  virtual bool present(std::string_view key) const = 0;
  // The value of a present key; each throws data_corrupt for another type.
  virtual int64_t integer(std::string_view key) const = 0;  // saturates at the ends of int64_t
  virtual double real(std::string_view key) const = 0;
  virtual std::string text(std::string_view key) const = 0;
  virtual bool flag(std::string_view key) const = 0;
  virtual std::vector<std::string> keys() const = 0;

 private:
  std::set<std::string, std::less<>> read_;
};

class GgufKeys final : public KeyReader {
 public:
  explicit GgufKeys(const GgufMetadata& metadata) : metadata_(metadata) {}
  const std::string& file() const override { return metadata_.file(); }
  const GgufMetadata& metadata() const { return metadata_; }

 protected:
  bool present(std::string_view key) const override { return metadata_.contains(key); }
  int64_t integer(std::string_view key) const override;
  double real(std::string_view key) const override;
  std::string text(std::string_view key) const override;
  bool flag(std::string_view key) const override;
  std::vector<std::string> keys() const override;

 private:
  const GgufMetadata& metadata_;
};

// An object of config.json; null counts as absent.
class JsonKeys final : public KeyReader {
 public:
  // `path` names the object inside the file: "" or "rope_scaling.".
  JsonKeys(const Json& object, std::string file, std::string path = "")
      : object_(object), file_(std::move(file)), path_(std::move(path)) {}
  const std::string& file() const override { return file_; }
  std::string full_name(std::string_view key) const override { return path_ + std::string(key); }

  // The object under a key, or nothing when it is absent or null.
  std::optional<JsonKeys> find_object(std::string_view key);
  // A list of words under a key, or nothing.
  std::optional<std::vector<std::string>> find_texts(std::string_view key);
  bool is_object(std::string_view key) const;
  bool has_null(std::string_view key) const;  // the key is there and null

 protected:
  bool present(std::string_view key) const override;
  int64_t integer(std::string_view key) const override;
  double real(std::string_view key) const override;
  std::string text(std::string_view key) const override;
  bool flag(std::string_view key) const override;
  std::vector<std::string> keys() const override;

 private:
  const Json& at(std::string_view key) const { return object_.find(key).value(); }
  [[noreturn]] void wrong_type(std::string_view key, std::string_view wanted) const;

  const Json& object_;
  std::string file_;
  std::string path_;
};

}  // namespace strata
