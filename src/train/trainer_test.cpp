// Whole runs: they learn, and neither threads, interruptions, a kill, a half-written checkpoint nor
// a full disk change what they compute.
#include "train/trainer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/cpu.h"
#include "base/error.h"
#include "kernels/kernel_table.h"
#include "model/test_models.h"
#include "numeric/half.h"
#include "support/error_message.h"
#include "text/tokenizer_json.h"
#include "train/character_tokenizer.h"
#include "train/gpt_folder.h"

namespace strata {
namespace {

std::string some_text() {
  std::string text;
  for (int i = 0; i < 120; ++i) text += "the cat sat on the mat. the dog sat on the log.\n";
  return text;
}

TrainConfig small_config() {
  TrainConfig c;
  c.layers = 1;
  c.heads = 2;
  c.hidden = 32;
  c.context = 16;
  c.batch = 4;
  c.steps = 30;
  c.warmup = 3;
  c.lr = 5e-3;
  c.dropout = 0.1;
  c.accumulation = 2;
  c.eval_every = 10;
  return c;
}

struct TrainRun {
  explicit TrainRun(TrainerOptions o) : options(std::move(o)) {
    const std::string text = some_text();
    json = character_tokenizer_json(text);
    tokenizer = tokenizer_from_json({"test", json, {}, {}, {}});
    trainer = std::make_unique<Trainer>(
        options, make_token_data(text, *tokenizer, 0.1, options.config.context), *tokenizer, json);
  }
  std::vector<float> weights() const {
    std::vector<float> all;
    for (const Parameter& p : trainer->parameters().all())
      all.insert(all.end(), p.value, p.value + p.size());
    return all;
  }
  TrainerOptions options;
  std::string json;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Trainer> trainer;
};

TrainerOptions in(const std::filesystem::path& out) {
  TrainerOptions o;
  o.config = small_config();
  o.out = out;
  return o;
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Lines without what depends on the clock.
std::vector<std::string> results(const std::filesystem::path& metrics) {
  std::ifstream file(metrics);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    Json j = parse_json(line);
    j.erase("tokens_per_second");
    lines.push_back(to_json_text(j));
  }
  return lines;
}

TEST(Trainer, LearnsAndKeepsItsRecord) {
  const testing::TemporaryFolder folder;
  TrainerOptions o = in(folder.path());
  o.config.steps = 150;
  o.config.dropout = 0;
  std::vector<double> validation;
  o.on_step = [&](const StepReport& r) {
    if (std::isfinite(r.validation_loss)) validation.push_back(r.validation_loss);
  };
  o.sample = [](const Model&) { return "a sample"; };
  TrainRun run(o);
  EXPECT_EQ(run.trainer->run(), TrainEnd::done);
  ASSERT_EQ(validation.size(), 15u);
  EXPECT_GT(validation.front(), 1.5);  // log 18 = 2.9 of nothing learnt
  EXPECT_LT(validation.back(), 0.6);
  EXPECT_NEAR(run.trainer->validate(), validation.back(), 1e-12);
  EXPECT_NEAR(run.trainer->validate_random_windows(), validation.back(), 0.2);
  EXPECT_EQ(run.trainer->state().tokens, 150 * 2 * 4 * 16);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "loss_curve.png",
                           "metrics.jsonl", "samples.txt"})
    EXPECT_TRUE(std::filesystem::exists(folder.path() / name)) << name;
  EXPECT_EQ(results(folder.path() / "metrics.jsonl").size(), 16u + 15u);
}

TEST(Trainer, ThreadsChangeNoBit) {
  TrainerOptions o = in("");
  o.config.steps = 5;
  TrainRun one(o);
  o.threads = 2;
  TrainRun two(o);
  EXPECT_EQ(one.trainer->run(), TrainEnd::done);
  EXPECT_EQ(two.trainer->run(), TrainEnd::done);
  EXPECT_EQ(one.weights(), two.weights());
}

TEST(Trainer, ARunInPiecesIsTheRunInOnePiece) {
  const testing::TemporaryFolder whole_folder, folder;
  TrainRun whole(in(whole_folder.path()));
  whole.trainer->run();
  TrainerOptions o = in(folder.path());
  int steps = 0;
  o.stop = [&] { return ++steps == 7; };
  EXPECT_EQ(TrainRun(o).trainer->run(), TrainEnd::stopped);
  o.stop = {};
  o.max_minutes = 1e-9;
  o.resume = true;
  EXPECT_EQ(TrainRun(o).trainer->run(), TrainEnd::time_is_up);
  o.max_minutes = 0;
  TrainRun last(o);
  EXPECT_EQ(last.trainer->state().step, 8);
  EXPECT_EQ(last.trainer->run(), TrainEnd::done);
  EXPECT_EQ(last.weights(), whole.weights());
  EXPECT_EQ(results(folder.path() / "metrics.jsonl"),
            results(whole_folder.path() / "metrics.jsonl"));
  EXPECT_EQ(content(folder.path() / "model.safetensors"),
            content(whole_folder.path() / "model.safetensors"));
}

TEST(Trainer, AKilledRunGoesOnBitForBit) {
  const testing::TemporaryFolder whole_folder, folder;
  TrainerOptions o = in(whole_folder.path());
  o.config.save_every = 1;
  TrainRun whole(o);
  whole.trainer->run();
  o.out = folder.path();
  for (int kill_number = 0; kill_number < 3; ++kill_number) {
    const pid_t child = fork();
    if (child == 0) {
      TrainRun run(o);
      o.resume = true;
      run.trainer->run();
      _exit(0);
    }
    // Somewhere in its steps and saves, once it has got on.
    const auto before = latest_checkpoint(folder.path());
    for (int i = 0; i < 5000 && latest_checkpoint(folder.path()) == before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(1500 * kill_number));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    o.resume = true;
  }
  // As a kill in the middle of a save leaves it.
  std::filesystem::create_directories(folder.path() / "trainer" / ".unfinished-step-00000099");
  TrainRun last(o);
  EXPECT_GT(last.trainer->state().step, 0);
  last.trainer->run();
  EXPECT_EQ(last.weights(), whole.weights());
  EXPECT_EQ(results(folder.path() / "metrics.jsonl"),
            results(whole_folder.path() / "metrics.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "trainer" / ".unfinished-step-00000099"));
}

// A limit on the size of files stands for the full disk: writing fails half-way.
TEST(Trainer, AFullDiskLeavesTheOldCheckpoint) {
  const testing::TemporaryFolder folder;
  TrainerOptions o = in(folder.path());
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  o.stop = [&, steps = 0]() mutable {
    if (++steps == 15) {
      const rlimit small{20'000, old_limit.rlim_max};
      setrlimit(RLIMIT_FSIZE, &small);
    }
    return false;
  };
  TrainRun run(o);
  ErrorCode code = ErrorCode::internal;
  std::string message;
  try {
    run.trainer->run();
  } catch (const Error& e) {
    code = e.code();
    message = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &old_limit);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(code, ErrorCode::resource_exhausted) << message;
  EXPECT_NE(message.find("model.safetensors"), std::string::npos) << message;
  ASSERT_TRUE(latest_checkpoint(folder.path()).has_value());
  EXPECT_EQ(latest_checkpoint(folder.path())->filename(), "step-00000010");
  o.stop = {};
  o.resume = true;
  TrainRun last(o);
  last.trainer->run();
  const testing::TemporaryFolder whole_folder;
  TrainRun whole(in(whole_folder.path()));
  whole.trainer->run();
  EXPECT_EQ(last.weights(), whole.weights());
}

TEST(Trainer, KeepsAsManyCheckpointsAsAsked) {
  const testing::TemporaryFolder folder;
  TrainerOptions o = in(folder.path());
  o.keep = 2;
  TrainRun(o).trainer->run();
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "trainer"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000020", "step-00000030"}));
}

// The average by its definition, in f64, from the weights after each step.
TEST(Trainer, TheAverageOfWeightsIsEvaluatedAndSaved) {
  const testing::TemporaryFolder folder;
  TrainerOptions o = in("");
  o.config.ema = 0.8;
  TrainRun run(o);
  std::vector<double> average(run.weights().size(), 0.0);
  for (int step = 1; step <= o.config.steps; ++step) {
    run.trainer->step_once();
    const std::vector<float> w = run.weights();
    for (size_t i = 0; i < w.size(); ++i) average[i] = 0.8 * average[i] + 0.2 * double{w[i]};
  }
  for (double& a : average) a /= 1 - std::pow(0.8, static_cast<double>(o.config.steps));

  o.out = folder.path();
  TrainRun saved(o);
  double validation = 0;
  EXPECT_EQ(saved.trainer->run(), TrainEnd::done);
  validation = saved.trainer->state().validation_loss;
  EXPECT_EQ(saved.weights(), run.weights());  // training itself is what it was
  read_gpt_weights(folder.path(), saved.trainer->parameters());
  const std::vector<float> written = saved.weights();
  double largest = 0;
  for (size_t i = 0; i < written.size(); ++i)
    largest = std::max(largest, std::abs(double{written[i]} - average[i]));
  EXPECT_LT(largest, 1e-6);
  EXPECT_NE(written, run.weights());

  // What was evaluated is what was saved.
  TrainerOptions plain = in("");
  TrainRun other(plain);
  read_gpt_weights(folder.path(), other.trainer->parameters());
  EXPECT_NEAR(other.trainer->validate(), validation, 1e-12);
}

TEST(Trainer, ARunWithAveragesGoesOnBitForBit) {
  const testing::TemporaryFolder whole_folder, folder;
  TrainerOptions o = in(whole_folder.path());
  o.config.ema = 0.9;
  TrainRun whole(o);
  whole.trainer->run();
  o.out = folder.path();
  int steps = 0;
  o.stop = [&] { return ++steps == 13; };
  EXPECT_EQ(TrainRun(o).trainer->run(), TrainEnd::stopped);
  o.stop = {};
  o.resume = true;
  TrainRun last(o);
  EXPECT_EQ(last.trainer->run(), TrainEnd::done);
  EXPECT_EQ(last.weights(), whole.weights());
  for (const char* file : {"model.safetensors", "norms.jsonl"})
    EXPECT_EQ(content(folder.path() / file), content(whole_folder.path() / file)) << file;
}

// ---- dtype bf16 ---------------------------------------------------------------------------------

// The value that bf16 has for x, by the definition: 8 significant bits, ties to even.
float nearest_bf16(float x) {
  int exponent = 0;
  const double significand = std::frexp(double{x}, &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(significand, 8)), exponent - 8));
}

std::vector<float> rounded_weights(const ParameterTable& parameters) {
  std::vector<float> all;
  for (const Parameter& p : parameters.all())
    for (int64_t i = 0; i < p.size(); ++i)
      all.push_back(p.rounded == nullptr ? p.value[i] : decode_bf16(p.rounded[i]));
  return all;
}

TEST(Trainer, CopiesInBf16FollowTheMasters) {
  TrainerOptions o = in("");
  o.config.dtype = "bf16";
  o.threads = 2;
  TrainRun run(o);
  for (int step = 0; step < 3; ++step) {
    run.trainer->step_once();
    int64_t differ = 0;
    for (const Parameter& p : run.trainer->parameters().all()) {
      ASSERT_EQ(p.rounded != nullptr, p.matrix() && p.name != "position_embd.weight") << p.name;
      for (int64_t i = 0; p.rounded != nullptr && i < p.size(); ++i) {
        ASSERT_EQ(decode_bf16(p.rounded[i]), nearest_bf16(p.value[i]))
            << p.name << " " << p.value[i];
        differ += p.value[i] != nearest_bf16(p.value[i]) ? 1 : 0;
      }
    }
    EXPECT_GT(differ, 1000);  // masters keep more than bf16 does
  }
  const TrainCost cost = run.trainer->cost();
  TrainRun plain(in(""));
  EXPECT_GE(cost.rounded_bytes, 2 * (cost.parameters - 2000));
  EXPECT_EQ(cost.total_bytes() - cost.rounded_bytes, plain.trainer->cost().total_bytes());
  EXPECT_EQ(plain.trainer->cost().rounded_bytes, 0);
}

// Steps change weights by less than a step of bf16: only masters in f32 let them add up.
TEST(Trainer, LearnsInBf16AsInF32) {
  TrainerOptions o = in("");
  o.config.steps = 150;
  o.config.dropout = 0;
  TrainRun f32(o);
  o.config.dtype = "bf16";
  TrainRun bf16(o);
  f32.trainer->run();
  bf16.trainer->run();
  EXPECT_LT(bf16.trainer->state().validation_loss, 0.6);  // log 18 = 2.9 of nothing learnt
  EXPECT_NEAR(bf16.trainer->state().validation_loss, f32.trainer->state().validation_loss, 0.1);
  EXPECT_NE(bf16.trainer->state().validation_loss, f32.trainer->state().validation_loss);
}

TEST(Trainer, ARunInBf16GoesOnBitForBitWithAnyThreads) {
  for (const double ema : {0.0, 0.9}) {
    const testing::TemporaryFolder whole_folder, folder;
    TrainerOptions o = in(whole_folder.path());
    o.config.dtype = "bf16";
    o.config.ema = ema;
    o.config.steps = 2;
    o.config.warmup = 1;
    TrainRun whole(o);
    EXPECT_EQ(whole.trainer->run(), TrainEnd::done);
    o.out = folder.path();
    o.threads = 2;
    o.stop = [] { return true; };
    EXPECT_EQ(TrainRun(o).trainer->run(), TrainEnd::stopped);
    o.resume = true;
    TrainRun last(o);
    EXPECT_EQ(last.trainer->state().step, 1);
    EXPECT_EQ(last.trainer->run(), TrainEnd::done);
    EXPECT_EQ(last.weights(), whole.weights());
    EXPECT_EQ(rounded_weights(last.trainer->parameters()),
              rounded_weights(whole.trainer->parameters()));
    EXPECT_EQ(last.trainer->state().validation_loss, whole.trainer->state().validation_loss);
    EXPECT_EQ(content(folder.path() / "model.safetensors"),
              content(whole_folder.path() / "model.safetensors"));
    // The file has the masters.
    TrainRun read(in(""));
    read_gpt_weights(folder.path(), read.trainer->parameters());
    EXPECT_EQ(read.weights() == last.weights(), ema == 0);
    EXPECT_EQ(read_train_state(*latest_checkpoint(folder.path())).config.dtype, "bf16");
  }
}

// Validation, samples and pictures are of the rounded weights, those of the average where there is
// one; masters come back bit for bit.
TEST(Trainer, WhatIsEvaluatedInBf16IsWhatIsComputedWith) {
  for (const double ema : {0.0, 0.8}) {
    const testing::TemporaryFolder folder;
    TrainerOptions o = in(folder.path());
    o.config.dtype = "bf16";
    o.config.ema = ema;
    std::vector<float> sampled, drawn;
    const auto weights_of = [](const Model& model) {
      std::vector<float> all;
      for (const WeightRef& w : model.weights) {
        std::vector<float> row(static_cast<size_t>(w.in));
        for (int64_t r = 0; r < w.out; ++r) {
          decode_weight_row(w, r, row.data());
          all.insert(all.end(), row.begin(), row.end());
        }
      }
      return all;
    };
    o.sample = [&](const Model& model) {
      sampled = weights_of(model);
      return "a sample";
    };
    o.draw = [&](const Model& model) { drawn = weights_of(model); };
    TrainRun run(o);
    run.trainer->run();

    // What was saved, rounded by the definition, in f32.
    TrainRun plain(in(""));
    const ParameterTable& table = plain.trainer->parameters();
    read_gpt_weights(folder.path(), table);
    for (const Parameter& p : table.all())
      for (int64_t i = 0; p.matrix() && p.name != "position_embd.weight" && i < p.size(); ++i)
        p.value[i] = nearest_bf16(p.value[i]);
    // Levels that multiply bf16 round activations as well.
    const bool exact = kernel_table(isa_level()).gemm_bf16 == nullptr;
    EXPECT_NEAR(plain.trainer->validate(), run.trainer->state().validation_loss,
                exact ? 0 : 2e-3 * run.trainer->state().validation_loss);
    EXPECT_EQ(sampled, plain.weights());
    EXPECT_EQ(drawn, plain.weights());
    EXPECT_EQ(run.trainer->validate(), run.trainer->state().validation_loss);
  }
}

// The rate is far too high from the start, so that the loss soon gets worse.
TEST(Trainer, StopsWhenNothingImprovesAndLeavesTheBest) {
  const testing::TemporaryFolder folder, whole_folder;
  TrainerOptions o = in(folder.path());
  o.config.steps = 200;
  o.config.lr = 0.3;
  o.config.min_lr = 0.3;
  o.config.eval_every = 2;
  o.config.early_stop = 3;
  std::vector<double> losses;
  o.on_step = [&](const StepReport& r) {
    if (std::isfinite(r.validation_loss)) losses.push_back(r.validation_loss);
  };
  TrainRun run(o);
  EXPECT_EQ(run.trainer->run(), TrainEnd::no_improvement);
  const TrainState& s = run.trainer->state();
  ASSERT_LT(s.step, 200);
  const auto best = std::min_element(losses.begin(), losses.end());
  EXPECT_EQ(losses.end() - best, 4);  // the best and three after it
  EXPECT_EQ(s.best_loss, *best);
  EXPECT_EQ(s.best_step, 2 * (best - losses.begin() + 1));
  TrainRun other(in(""));
  read_gpt_weights(folder.path(), other.trainer->parameters());
  EXPECT_NEAR(other.trainer->validate(), *best, 1e-12);

  // In pieces it ends at the same place; once it has ended it has.
  o.out = whole_folder.path();
  o.on_step = {};
  o.stop = [&, steps = 0]() mutable { return ++steps == 3; };
  EXPECT_EQ(TrainRun(o).trainer->run(), TrainEnd::stopped);
  o.stop = {};
  o.resume = true;
  for (int again = 0; again < 2; ++again) {
    TrainRun pieces(o);
    EXPECT_EQ(pieces.trainer->run(), TrainEnd::no_improvement);
    EXPECT_EQ(pieces.trainer->state().step, s.step);
    EXPECT_EQ(pieces.weights(), run.weights());
  }
  EXPECT_EQ(content(folder.path() / "model.safetensors"),
            content(whole_folder.path() / "model.safetensors"));
}

TEST(Trainer, RecordsTheNormsOfEachTensor) {
  const testing::TemporaryFolder folder;
  TrainerOptions o = in(folder.path());
  o.config.norms_every = 15;
  o.config.clip = 0;
  o.config.positions = "sinusoidal";
  double gradient_norm = 0;
  o.on_step = [&](const StepReport& r) { gradient_norm = r.gradient_norm; };
  TrainRun run(o);
  run.trainer->run();
  std::ifstream file(folder.path() / "norms.jsonl");
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(parse_json(line));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].at("step"), 15);
  const Json& tensors = lines[1].at("tensors");
  double sum = 0;
  for (const Parameter& p : run.trainer->parameters().all()) {
    double squares = 0;
    for (int64_t i = 0; i < p.size(); ++i) squares += double{p.value[i]} * double{p.value[i]};
    // The kernel's partial sums are f32: 20 of its roundings (train_rows.h).
    EXPECT_NEAR(tensors.at(p.name).at("weight").get<double>(), std::sqrt(squares),
                1e-6 * std::sqrt(squares))
        << p.name;
    ASSERT_EQ(tensors.at(p.name).contains("gradient"), p.name != "position_embd.weight") << p.name;
    if (p.trainable()) sum += std::pow(tensors.at(p.name).at("gradient").get<double>(), 2);
  }
  // Together they are the norm that the metrics have.
  EXPECT_NEAR(std::sqrt(sum), gradient_norm, 1e-6 * gradient_norm);
}

// Checkpoints of format 1 know nothing of averages and early stopping.
TEST(Trainer, ACheckpointOfFormat1IsRead) {
  const testing::TemporaryFolder folder;
  TrainRun(in(folder.path())).trainer->run();
  const std::filesystem::path path = *latest_checkpoint(folder.path()) / "state.json";
  Json state = parse_json(content(path));
  state["format"] = 1;
  for (const char* key : {"ema", "dtype", "norms-every", "early-stop"}) state["config"].erase(key);
  state.erase("best");
  std::ofstream(path) << state;
  EXPECT_EQ(read_train_state(path.parent_path()).step, 30);
  EXPECT_EQ(read_train_state(path.parent_path()).config.ema, 0);
  state["format"] = 2;
  std::ofstream(path) << state;
  EXPECT_THROW(read_train_state(path.parent_path()), Error);
  state["format"] = 3;
  std::ofstream(path) << state;
  EXPECT_THROW(read_train_state(path.parent_path()), Error);
}

TEST(Trainer, ALossThatIsNoNumberStopsTheRun) {
  const testing::TemporaryFolder folder;
  TrainerOptions o = in(folder.path());
  o.config.save_every = 1;
  o.config.lr = 1e30;
  o.config.warmup = 0;
  o.config.clip = 0;
  const std::string text = message([&] { TrainRun(o).trainer->run(); });
  EXPECT_EQ(text.rfind("train: step ", 0), 0u) << text;
  EXPECT_NE(text.find("is not finite; the last good checkpoint is "), std::string::npos) << text;
}

TEST(Trainer, FoldersAreNotMixedUp) {
  const testing::TemporaryFolder folder;
  TrainerOptions o = in(folder.path());
  o.resume = true;
  EXPECT_EQ(message([&] { TrainRun{o}; }),
            "train: " + folder.path().string() + " has no checkpoint to resume from");
  o.resume = false;
  TrainRun(o).trainer->run();
  EXPECT_EQ(message([&] { TrainRun{o}; }),
            "train: " + folder.path().string() +
                " has a run already (step-00000030); give --resume or another folder");
  // A checkpoint that is broken is named.
  o.resume = true;
  std::ofstream(*latest_checkpoint(folder.path()) / "state.json") << "{\"format\":1}";
  EXPECT_NE(message([&] { TrainRun{o}; }).find("state.json: "), std::string::npos);
}

}  // namespace
}  // namespace strata
