// A GGUF file from nowhere as a model: what its metadata and tensor table mean. It is refused with
// an Error, or its weights are bound and planned, and its tokenizer encodes and decodes any text.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "io/gguf.h"
#include "model/bind.h"
#include "model/key_reader.h"
#include "model/name_map.h"
#include "model/plan.h"
#include "model/spec.h"
#include "refused_or_done.h"
#include "text/gguf_vocabulary.h"

namespace strata {
namespace {

// The tensors of a parsed file, without a file.
class ParsedStore final : public TensorStore {
 public:
  explicit ParsedStore(std::vector<StoredTensor> tensors) : tensors_(std::move(tensors)) {}
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const StoredTensor* find(std::string_view name) const override {
    for (const StoredTensor& tensor : tensors_)
      if (tensor.name == name) return &tensor;
    return nullptr;
  }
  const std::vector<std::string>& files() const override { return files_; }
  uint64_t file_bytes() const override { return 0; }
  void check_intact() const override {}
  void release_pages(std::span<const std::byte>) const override {}

 private:
  std::vector<StoredTensor> tensors_;
  std::vector<std::string> files_{"fuzz.gguf"};
};

void encode_and_decode(const GgufMetadata& metadata) {
  const auto tokenizer = tokenizer_from_gguf(metadata);
  for (const auto control : {ControlText::as_text, ControlText::parse}) {
    const auto ids = tokenizer->encode("a b  <s>\xF0\x9F\x98\x80 12\xFF it's\n", {control, true});
    tokenizer->decode(ids, true);
  }
}

void bind_and_plan(const GgufContent& content) {
  GgufKeys keys(content.metadata);
  const ModelSpec spec = read_gguf_spec(keys);
  Model model;
  model.config = spec.config;
  model.store = std::make_unique<ParsedStore>(content.tensors);
  for (const Rope& rope : spec.ropes) model.ropes.push_back(std::make_unique<Rope>(rope));
  bind_weights(model, spec, NameMap::for_gguf(*model.store));
  plan_memory(model, {.batch_rows = 4});
}

}  // namespace
}  // namespace strata

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::set_log_level(strata::LogLevel::off);
  strata::refused_or_done([&] {
    const strata::GgufContent content =
        strata::parse_gguf(std::as_bytes(std::span(data, size)), "fuzz.gguf");
    strata::refused_or_done([&] { strata::encode_and_decode(content.metadata); });
    strata::bind_and_plan(content);
  });
  return 0;
}
