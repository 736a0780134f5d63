#pragma once

// STRATA_EMBED(name, file): the file's bytes in the program, from strata_web_name up to
// strata_web_name_end. The assembler copies them into the object as they are: no generated source,
// no limit of length. CMakeLists.txt makes the source depend on the file.
#define STRATA_EMBED(name, file)             \
  __asm__(                                   \
      ".section .rodata\n"                   \
      ".balign 16\n"                         \
      "strata_web_" #name                    \
      ":\n"                                  \
      ".incbin \"" file                      \
      "\"\n"                                 \
      "strata_web_" #name                    \
      "_end:\n"                              \
      ".byte 0\n"                            \
      ".previous\n");                        \
  extern "C" const char strata_web_##name[]; \
  extern "C" const char strata_web_##name##_end[]
