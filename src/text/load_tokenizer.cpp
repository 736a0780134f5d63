#include "text/load_tokenizer.h"

#include "base/error.h"
#include "io/gguf.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer_json.h"

namespace strata {

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model) {
  if (std::filesystem::is_directory(model)) return tokenizer_from_folder(model);
  if (!std::filesystem::exists(model))
    fail(ErrorCode::not_found, "{}: there is no such file or folder", model.string());
  return tokenizer_from_gguf(open_gguf(model)->metadata());
}

}  // namespace strata
