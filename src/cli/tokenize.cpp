#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "io/gguf.h"
#include "model/key_reader.h"
#include "model/model.h"
#include "model/spec.h"
#include "text/load_tokenizer.h"

namespace strata::cli {
namespace {

struct TokenizeFlags {
  GlobalOptions global;
  std::string model;
  std::string text;
  std::string file;
  std::string ids;
  bool special = false;
};

std::vector<TokenId> parse_ids(const std::string& text, int64_t vocabulary) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    while (at != end && (*at == ' ' || *at == ',' || *at == '\n' || *at == '\t')) ++at;
    if (at == end) return ids;
    TokenId id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || id >= vocabulary)
      fail(ErrorCode::invalid_argument, "--decode: '{}' is no token id from 0 to {}",
           std::string(at, end).substr(0, 20), vocabulary - 1);
    ids.push_back(id);
    at = next;
  }
}

std::string shown(const Tokenizer& tokenizer, TokenId id) {
  return replace_invalid_utf8(tokenizer.piece(id));
}

int decode_command(const TokenizeFlags& flags, const Tokenizer& tokenizer) {
  const std::string listed = flags.ids == "-" ? read_file("/dev/stdin") : flags.ids;
  const auto ids = parse_ids(listed, tokenizer.vocabulary_size());
  const std::string text = tokenizer.decode(ids, flags.special);
  if (flags.global.json) {
    OrderedJson out;
    out["text"] = replace_invalid_utf8(text);
    print_json(to_json_text(out));
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
    fmt::print("\n");
  }
  return kDone;
}

// A damaged file is refused even if its tokenizer could be read; a sound one of an architecture
// that strata cannot run still tokenizes.
void refuse_damaged_gguf(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return;
  try {
    const auto store = open_gguf(path);
    GgufKeys keys(store->metadata());
    read_gguf_spec(keys);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::unsupported) throw;
  }
}

int tokenize_command(const TokenizeFlags& flags, bool from_file, bool decode) {
  const std::filesystem::path path = resolve_model_path(flags.model);
  refuse_damaged_gguf(path);
  const auto tokenizer = load_tokenizer(path);
  if (decode) return decode_command(flags, *tokenizer);
  const std::string text = from_file ? read_file(flags.file) : flags.text;
  const auto control = flags.special ? ControlText::parse : ControlText::as_text;
  const auto start = std::chrono::steady_clock::now();
  const auto ids = tokenizer->encode(text, {control, true});
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  if (flags.global.json) {
    OrderedJson out;
    out["ids"] = ids;
    out["pieces"] = OrderedJson::array();
    for (TokenId id : ids) out["pieces"].push_back(shown(*tokenizer, id));
    out["timings"]["encode_ms"] = taken.count();
    print_json(to_json_text(out));
  } else {
    std::string lines;
    for (TokenId id : ids) lines += fmt::format("{:>7}  {}\n", id, shown(*tokenizer, id));
    std::fwrite(lines.data(), 1, lines.size(), stdout);
    if (!flags.global.quiet) fmt::print(stderr, "{} tokens of {} bytes\n", ids.size(), text.size());
  }
  return kDone;
}

}  // namespace

void add_tokenize(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<TokenizeFlags>();
  CLI::App& command = *app.add_subcommand("tokenize", "text to token ids, or back");
  command.footer("Example: strata tokenize smollm2-135m --text 'Hello, world' --json");
  command.add_option("MODEL", flags->model, "catalogue name, .gguf file or folder")->required();
  CLI::Option* text = command.add_option("--text", flags->text, "the text");
  CLI::Option* file = command.add_option("--file", flags->file, "a file with the text");
  CLI::Option* decode = command.add_option("--decode", flags->ids,
                                           "token ids, such as \"1 2 3\"; -: from standard input");
  text->excludes(file)->excludes(decode);
  file->excludes(decode);
  command.add_flag(
      "--special", flags->special,
      "spellings of control tokens (</s>, <|im_end|>) become control tokens; without it they stay "
      "text. With --decode: control tokens are spelled out");
  add_common_options(command, flags->global);
  command.callback([flags, &run, text, file, decode] {
    if (text->count() + file->count() + decode->count() == 0)
      throw CLI::RequiredError("--text, --file or --decode");
    const bool from_file = file->count() > 0, back = decode->count() > 0;
    run = [flags, from_file, back] { return tokenize_command(*flags, from_file, back); };
  });
}

}  // namespace strata::cli
