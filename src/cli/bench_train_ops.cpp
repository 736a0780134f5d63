#include "cli/bench_train_ops.h"

#include <charconv>
#include <memory>

#include "base/error.h"
#include "bench/train_ops.h"
#include "cli/bench_run.h"

namespace strata::cli {
namespace {

struct TrainOpsFlags : BenchRunFlags {
  TrainOpsCase sizes;
  std::vector<std::string> ops;
  std::vector<std::string> shapes;
};

WeightShape parse_shape(const std::string& text) {
  WeightShape shape;
  const char* const end = text.data() + text.size();
  const auto out = std::from_chars(text.data(), end, shape.out);
  if (out.ec == std::errc() && out.ptr != end && *out.ptr == 'x') {
    const auto in = std::from_chars(out.ptr + 1, end, shape.in);
    constexpr int64_t kMost = 1 << 20;
    if (in.ec == std::errc() && in.ptr == end && shape.out > 0 && shape.in > 0 &&
        shape.out <= kMost && shape.in <= kMost)
      return shape;
  }
  fail(ErrorCode::invalid_argument, "--shapes: got '{}', wanted OUTxIN such as 1152x384", text);
}

TrainOp op_named(const std::string& name) {
  const std::vector<std::string>& names = train_op_names();
  size_t i = 0;
  while (names[i] != name) ++i;  // the option takes no other
  return static_cast<TrainOp>(i);
}

int train_ops_command(const TrainOpsFlags& flags) {
  TrainOpsCase sizes = flags.sizes;
  if (!flags.ops.empty()) sizes.ops.clear();
  for (const std::string& name : flags.ops) sizes.ops.push_back(op_named(name));
  if (!flags.shapes.empty()) sizes.weights.clear();
  for (const std::string& text : flags.shapes) sizes.weights.push_back(parse_shape(text));
  const Bench bench(flags);
  return bench.run([&](std::string& /*model_hash*/) {
    bench.status().say("measuring");
    return bench.with_pool([&](const OpContext& context) {
      return measure_train_ops(sizes, context, flags.repeats, stop_if_interrupted);
    });
  });
}

}  // namespace

void add_bench_train_ops(CLI::App& bench, Run& run) {
  const auto flags = std::make_shared<TrainOpsFlags>();
  CLI::App& command = *bench.add_subcommand(
      "train-ops", "the operations of a training step in f32, each alone, forward and backward");
  command.footer("Example: strata bench train-ops --ops attention --tokens 65536 --repeats 1");
  command.add_option("--ops", flags->ops, "which; default: all")
      ->check(CLI::IsMember(train_op_names()))
      ->delimiter(',')
      ->allow_extra_args(false);
  add_size(command, "--rows", flags->sizes.rows, "tokens in products");
  command
      .add_option("--shapes", flags->shapes,
                  "weights in products, OUTxIN,...; default: those of a GPT 384 wide")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_size(command, "--tokens", flags->sizes.tokens, "tokens of attention's one causal sequence");
  command.add_option("--heads", flags->sizes.heads, "of attention")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--head-size", flags->sizes.head_size, "elements of a head")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--width", flags->sizes.width, "columns of norms and of the head's input")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command.add_option("--vocabulary", flags->sizes.vocabulary, "of cross-entropy")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  add_threads(command, *flags);
  add_repeats(command, *flags);
  add_bench_options(command, *flags);
  command.callback([flags, &run] { run = [flags] { return train_ops_command(*flags); }; });
}

}  // namespace strata::cli
