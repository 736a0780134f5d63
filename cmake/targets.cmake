# strata_library(NAME SOURCES ... [DEPS ...]) and strata_test(NAME SOURCES ... [DEPS ...]):
# one library target `strata_<folder>` and one gtest program `strata_<folder>_test` per folder of src/.

add_library(strata_flags INTERFACE)
target_include_directories(strata_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(strata_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  # One rounding per operation everywhere but in the ISA files, which ask for FMA by name.
  -ffp-contract=off)
target_compile_definitions(strata_flags INTERFACE STRATA_VERSION="${PROJECT_VERSION}")
# The name of the binary in config_hash (src/base/build_id.h); not every compiler asks for one.
target_link_options(strata_flags INTERFACE -Wl,--build-id=sha1)
if(STRATA_SANITIZE)
  target_compile_options(strata_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(strata_flags INTERFACE -fsanitize=address,undefined)
endif()
if(STRATA_TSAN)
  target_compile_options(strata_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(strata_flags INTERFACE -fsanitize=thread)
endif()
if(STRATA_FUZZ)
  target_compile_options(strata_flags INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
  target_link_options(strata_flags INTERFACE -fsanitize=address,undefined)
endif()
if(STRATA_COVERAGE)
  target_compile_options(strata_flags INTERFACE --coverage)
  target_link_options(strata_flags INTERFACE --coverage)
endif()
if(STRATA_ASSERTS OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_definitions(strata_flags INTERFACE STRATA_ASSERT_ABORTS=1)
endif()

find_program(MOLD mold)
if(MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_link_options(strata_flags INTERFACE -fuse-ld=mold)
endif()

# For code that is compiled often and runs little, as tests and the command line: -O1 compiles a quarter sooner than -O2.
function(strata_compile_sooner target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

function(strata_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(strata_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(strata_${name} PUBLIC strata_flags ${ARG_DEPS})
endfunction()

# What the tests of the label `unit` run: all a sanitizer needs of a build.
add_custom_target(unit_tests)

function(strata_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(strata_${name}_test ${ARG_SOURCES})
  target_link_libraries(strata_${name}_test PRIVATE
    strata_${name} ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  strata_compile_sooner(strata_${name}_test)
  # "support/test_data.h" and its like.
  target_include_directories(strata_${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  add_dependencies(unit_tests strata_${name}_test)
  add_test(NAME ${name} COMMAND strata_${name}_test WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 1800)
endfunction()
