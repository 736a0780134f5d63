#include "base/cpu.h"

#include <cpuid.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace strata {
namespace {

// XCR0: the register states the operating system saves on a switch.
uint64_t read_xcr0() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

constexpr bool bit(uint32_t word, int index) { return (word >> index & 1) != 0; }

}  // namespace

std::string_view isa_level_name(IsaLevel level) {
  switch (level) {
    case IsaLevel::scalar:
      return "scalar";
    case IsaLevel::avx2:
      return "avx2";
    case IsaLevel::avx_vnni:
      return "avx_vnni";
    case IsaLevel::avx512:
      return "avx512";
    case IsaLevel::avx512_vnni:
      return "avx512_vnni";
    case IsaLevel::avx512_bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

std::optional<IsaLevel> isa_level_from_name(std::string_view name) {
  for (int i = 0; i < kIsaLevelCount; ++i) {
    const auto level = static_cast<IsaLevel>(i);
    if (isa_level_name(level) == name) return level;
  }
  return std::nullopt;
}

CpuFeatures detect_cpu_features() {
  // Bit numbers: Intel SDM volume 2, CPUID, leaf 1 (ECX), leaf 7 (EBX, ECX) and its subleaf 1
  // (EAX); XCR0: volume 1, 13.1.
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  CpuFeatures features;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return features;
  const bool osxsave = bit(ecx, 27), avx = bit(ecx, 28), fma = bit(ecx, 12), f16c = bit(ecx, 29);
  if (!osxsave || !avx) return features;
  constexpr uint64_t kXmmAndYmm = 0b110, kMasksAndZmm = 0b1110'0000;
  const uint64_t saved = read_xcr0();
  if ((saved & kXmmAndYmm) != kXmmAndYmm) return features;
  features.fma = fma;
  features.f16c = f16c;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return features;
  const uint32_t last_subleaf = eax;
  features.avx2 = bit(ebx, 5);
  const bool zmm = (saved & kMasksAndZmm) == kMasksAndZmm;
  features.avx512 =
      zmm && bit(ebx, 16) && bit(ebx, 17) && bit(ebx, 28) && bit(ebx, 30) && bit(ebx, 31);
  features.avx512_vnni = features.avx512 && bit(ecx, 11);
  if (last_subleaf < 1 || __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0) return features;
  features.avx_vnni = bit(eax, 4);
  features.avx512_bf16 = features.avx512 && bit(eax, 5);
  return features;
}

std::vector<IsaLevel> available_isa_levels(const CpuFeatures& features) {
  std::vector<IsaLevel> levels = {IsaLevel::scalar};
  if (!features.avx2 || !features.fma || !features.f16c) return levels;
  levels.push_back(IsaLevel::avx2);
  if (features.avx_vnni) levels.push_back(IsaLevel::avx_vnni);
  if (!features.avx512) return levels;
  levels.push_back(IsaLevel::avx512);
  if (!features.avx512_vnni) return levels;
  levels.push_back(IsaLevel::avx512_vnni);
  if (features.avx512_bf16) levels.push_back(IsaLevel::avx512_bf16);
  return levels;
}

IsaLevel choose_isa_level(const char* wanted, const CpuFeatures& features) {
  const std::vector<IsaLevel> levels = available_isa_levels(features);
  if (wanted == nullptr || *wanted == '\0') return levels.back();
  const std::optional<IsaLevel> level = isa_level_from_name(wanted);
  std::string names;
  for (IsaLevel l : levels) {
    if (level == l) return l;
    if (!names.empty()) names += ", ";
    names += isa_level_name(l);
  }
  fail(ErrorCode::invalid_argument, "STRATA_ISA: \"{}\" is {}; this machine has: {}", wanted,
       level ? "not usable on this machine" : "no instruction-set level", names);
}

IsaLevel isa_level() {
  static const IsaLevel level = choose_isa_level(std::getenv("STRATA_ISA"), detect_cpu_features());
  return level;
}

}  // namespace strata
