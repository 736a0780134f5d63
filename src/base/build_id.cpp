#include "base/build_id.h"

#include <elf.h>
#include <fmt/core.h>
#include <link.h>

#include <cstring>
#include <string_view>

namespace strata {
namespace {

constexpr size_t kNoteAlignment = 4;

size_t aligned(size_t bytes) {
  return (bytes + kNoteAlignment - 1) / kNoteAlignment * kNoteAlignment;
}

// The build id among the notes of a segment, or "".
std::string find_in_notes(const char* notes, size_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes, sizeof(header));
    const size_t name_at = sizeof(header);
    const size_t content_at = name_at + aligned(header.n_namesz);
    const size_t end = content_at + aligned(header.n_descsz);
    if (end > size) break;
    const std::string_view name(notes + name_at, header.n_namesz);
    constexpr std::string_view kOwner{"GNU\0", 4};
    if (header.n_type == NT_GNU_BUILD_ID && name == kOwner) {
      std::string text;
      for (size_t i = 0; i < header.n_descsz; ++i)
        text += fmt::format("{:02x}", static_cast<unsigned char>(notes[content_at + i]));
      return text;
    }
    notes += end;
    size -= end;
  }
  return {};
}

int look_at_object(dl_phdr_info* object, size_t /*size*/, void* found) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives addresses as numbers.
    const auto* notes = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    std::string id = find_in_notes(notes, segment.p_memsz);
    if (!id.empty()) *static_cast<std::string*>(found) = std::move(id);
  }
  return 1;  // the first object is the program itself; no further ones
}

}  // namespace

std::string build_id() {
  std::string id;
  dl_iterate_phdr(look_at_object, &id);
  return id.empty() ? "none" : id;
}

}  // namespace strata
