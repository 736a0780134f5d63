#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace strata {

// Instruction sets the kernels are compiled for, weakest first. A level is usable when the CPU has
// every feature it names and the operating system saves the registers. This is no ladder:
// processors with AVX-VNNI may lack AVX-512, and those with AVX-512 AVX-VNNI.
enum class IsaLevel : uint8_t {
  scalar,       // plain C++ for the baseline x86-64
  avx2,         // AVX2, FMA, F16C
  avx_vnni,     // avx2 and AVX-VNNI
  avx512,       // avx2 and AVX-512 F, BW, CD, DQ, VL
  avx512_vnni,  // avx512 and AVX-512 VNNI
  avx512_bf16,  // avx512_vnni and AVX-512 BF16
};
inline constexpr int kIsaLevelCount = 6;

// The spelling STRATA_ISA takes and --version prints.
std::string_view isa_level_name(IsaLevel level);
std::optional<IsaLevel> isa_level_from_name(std::string_view name);

// Whether this level's kernels have passed the tests on hardware that has it (docs/kernels.md lists
// the runs); the others were compiled, and tested by stand-ins only.
constexpr bool isa_level_has_run(IsaLevel level) { return level != IsaLevel::avx_vnni; }

// What CPUID says of this machine, registers the operating system does not save left out (XGETBV).
struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx_vnni = false;
  bool avx512 = false;  // F, BW, CD, DQ and VL
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
};
CpuFeatures detect_cpu_features();

// The usable levels, weakest first; scalar is always there.
std::vector<IsaLevel> available_isa_levels(const CpuFeatures& features);

// The level named by `wanted` (nullptr or "": the best one). Throws Error{invalid_argument} for a
// name that is no level, or a level these features lack; the message lists what there is.
IsaLevel choose_isa_level(const char* wanted, const CpuFeatures& features);

// This process's level: STRATA_ISA, else the best. Decided at the first call; throws as above.
IsaLevel isa_level();

// Threads worth starting: the CPUs of the affinity mask, no more than the cgroup's CPU quota
// (v1 or v2, of this group and its ancestors; rounded down, as a thread above the quota only makes
// the group wait for its next period), at least 1.
int usable_threads();

}  // namespace strata
