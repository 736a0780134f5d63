#pragma once

// Support for the tests of this folder: the golden models of tools/oracle/architectures.py as
// folders, as GGUF twins, and their logits.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "exec/ref_exec.h"
#include "io/gguf_writer.h"
#include "model/model.h"

namespace strata::testing {

// A folder that is removed with its content.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct GoldenCase {
  std::string name;
  std::string model;
  Json changes;  // to the model's config.json
};

struct Goldens {
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;  // whose logits are in the files
  Json gguf_names;                 // model -> Hugging Face name -> GGUF name
  std::vector<GoldenCase> cases;
};
const Goldens& goldens();
const GoldenCase& golden_case(const std::string& name);

std::filesystem::path golden_folder();
// The logits of a case, [positions, V]: transformers in float64, and in float32.
std::vector<double> golden_logits(const std::string& name);
std::vector<double> golden_logits_f32(const std::string& name);

// config.json of a case.
Json golden_config(const GoldenCase& c);
// Makes `folder` a Hugging Face folder with the weights of a golden model and this config.json.
void write_hf_folder(const std::filesystem::path& folder, const std::string& model,
                     const Json& config);

// What tools that convert such a folder to GGUF write: names by the gguf package, q and k rows of
// llama permuted, Gemma's norms with 1 added, Conv1D transposed; F32. `change` may edit the file
// before it is written.
using GgufChange = std::function<void(GgufWriter&)>;
void write_gguf_twin(const std::filesystem::path& path, const GoldenCase& c,
                     const GgufChange& change = {});

// A copy of one of the golden cases, loaded.
std::unique_ptr<Model> load_golden(const std::string& name);

// Logits [rows, V] of the rows of one sequence.
std::vector<double> run(const Model& model, const std::vector<int32_t>& tokens,
                        const std::vector<int32_t>& rows, const RefOptions& options = {});

// max |a - b| / max |b|; infinity for sizes that differ, no values, or values that are not finite.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace strata::testing
