#pragma once

#include <filesystem>
#include <string>

#include "train/gpt_model.h"
#include "train/parameters.h"

namespace strata {

// Writes a trained GPT as a Hugging Face folder: config.json, model.safetensors (F32) and
// tokenizer.json. In the layouts of GPT-2 and Llama transformers loads it and computes the same;
// the third, "strata_gpt", names tensors as strata does and says in config.json what it combines.
// `folder` exists. Throws Error{resource_exhausted} when the disk is full, naming the file.
void write_gpt_folder(const std::filesystem::path& folder, const GptConfig& config,
                      const ParameterTable& parameters, const std::string& tokenizer_json);

// Copies the weights of such a folder into the masters, bit for bit. Throws Error{data_corrupt}
// for a weight that is missing or of another shape.
void read_gpt_weights(const std::filesystem::path& folder, const ParameterTable& parameters);

}  // namespace strata
