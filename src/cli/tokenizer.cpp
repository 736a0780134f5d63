#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/replace_file.h"
#include "cli/command.h"
#include "text/bpe_trainer.h"

namespace strata::cli {
namespace {

struct TokenizerFlags {
  GlobalOptions global;
  std::vector<std::string> data;
  std::string out;
  BpeTrainerOptions options;
};

// Feeds a file in pieces that end with a line, so that memory does not grow with it. Returns its
// bytes.
int64_t add_file(const std::string& path, BpeTrainer& trainer) {
  constexpr size_t kPiece = size_t{4} << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path))
    fail(ErrorCode::not_found, "tokenizer train: {}: cannot be read", path);
  std::string pending;
  int64_t bytes = 0;
  for (std::string piece(kPiece, '\0'); file;) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto got = static_cast<size_t>(file.gcount());
    bytes += static_cast<int64_t>(got);
    pending.append(piece, 0, got);
    const size_t last = pending.rfind('\n');
    if (last == std::string::npos) continue;
    trainer.add_text(std::string_view(pending).substr(0, last + 1));
    pending.erase(0, last + 1);
    stop_if_interrupted();
  }
  trainer.add_text(pending);
  return bytes;
}

int train_command(const TokenizerFlags& flags) {
  BpeTrainer trainer(flags.options);
  ReplaceFile file(flags.out);  // where nothing can be written is told before the work
  const bool visible = !flags.global.quiet && isatty(STDERR_FILENO) == 1;
  int64_t bytes = 0;
  for (const std::string& path : flags.data) {
    if (visible) fmt::print(stderr, "\rreading {}\033[K", path);
    bytes += add_file(path, trainer);
  }
  if (bytes == 0) fail(ErrorCode::data_corrupt, "tokenizer train: there is no text");
  const BpeTrainer::Result result = trainer.train([&](double share) {
    stop_if_interrupted();
    if (visible) fmt::print(stderr, "\rmerging: {:.0f} %\033[K", 100 * share);
  });
  if (visible) fmt::print(stderr, "\r\033[K");
  file.write(bpe_tokenizer_json(result, flags.options.specials));
  file.commit();
  const auto pieces = static_cast<int64_t>(result.pieces.size());
  if (flags.global.json) {
    OrderedJson j;
    j["out"] = flags.out;
    j["vocabulary"] = pieces;
    j["merges"] = result.merges.size();
    j["words"] = result.words;
    j["bytes"] = bytes;
    print_json(to_json_text(j));
  } else {
    fmt::print("{}: {} tokens, {} merges, from {} distinct words of {} bytes\n", flags.out, pieces,
               result.merges.size(), result.words, bytes);
    if (pieces < flags.options.vocabulary)
      fmt::print("fewer than the {} asked for: the text has no more pairs to merge\n",
                 flags.options.vocabulary);
  }
  return kDone;
}

}  // namespace

void add_tokenizer(CLI::App& app, Run& run) {
  CLI::App& command = *app.add_subcommand("tokenizer", "makes tokenizers");
  command.require_subcommand(1);
  command.footer(
      "Example: strata tokenizer train --data text.txt --vocab 8192 --out tokenizer.json");
  const auto flags = std::make_shared<TokenizerFlags>();
  CLI::App& train =
      *command.add_subcommand("train", "byte-level BPE from text files, as a tokenizer.json");
  train.footer("Example: strata tokenizer train --data text.txt --vocab 8192 --out tokenizer.json");
  train.add_option("--data", flags->data, "text files")->type_name("FILE")->required();
  train.add_option("--out", flags->out, "the tokenizer.json to write")
      ->type_name("FILE")
      ->required();
  train.add_option("--vocab", flags->options.vocabulary, "tokens, the 256 bytes included")
      ->capture_default_str();
  train.add_option("--least-count", flags->options.least_count, "of a pair that is merged")
      ->check(CLI::NonNegativeNumber);
  train.add_option("--special", flags->options.specials, "special tokens: they get the first ids")
      ->type_name("TEXT");
  add_common_options(train, flags->global);
  train.callback([flags, &run] { run = [flags] { return train_command(*flags); }; });
}

}  // namespace strata::cli
