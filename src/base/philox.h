#pragma once

#include <array>
#include <cstdint>

namespace strata {

inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxMultipliers[2] = {0xD2511F53, 0xCD9E8D57};
inline constexpr uint32_t kPhiloxWeyl[2] = {0x9E3779B9, 0xBB67AE85};  // added to the key each round

// Philox4x32-10 (Salmon et al., SC 2011, "Parallel random numbers: as easy as 1, 2, 3"): four
// random words from a counter and a key; no state, so any draw can be made on its own. Many blocks
// at once: TrainRowKernels::philox.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A uniform double in [0, 1) with 53 random bits, from words 0 and 1 of one block.
double uniform_from_words(uint32_t low, uint32_t high);

// What a block of random words is for; keeps the streams of one seed apart.
enum class RandomPurpose : uint32_t { sampling = 0, dropout = 1, initialisation = 2, shuffle = 3 };

// The draw for output token `output_index` of choice `choice_index` of prompt `prompt_index`:
// key = seed, counter = {output_index, prompt_index << 16 | choice_index, purpose, 0}.
double sampling_uniform(uint64_t seed, uint32_t output_index, uint32_t prompt_index,
                        uint32_t choice_index);

}  // namespace strata
