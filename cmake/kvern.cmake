# What every target of the project shares, and the two functions the folders are made of.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(PkgConfig REQUIRED)
if(KVERN_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# What the project's libraries ask of whoever links them.
add_library(kvern_options INTERFACE)
target_compile_features(kvern_options INTERFACE cxx_std_23)
target_include_directories(kvern_options INTERFACE ${PROJECT_SOURCE_DIR})
target_link_libraries(kvern_options INTERFACE Threads::Threads fmt::fmt)

# How the project's own sources are compiled.
add_library(kvern_build INTERFACE)
target_compile_options(kvern_build INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Werror -Wno-restrict  # -Wrestrict: false alarms in g++ 12's std::string
  -ffp-contract=off -fno-math-errno)
if(KVERN_SANITIZE)
  set(sanitize -fsanitize=${KVERN_SANITIZE} -fno-omit-frame-pointer)
  if(NOT KVERN_SANITIZE STREQUAL "thread")
    list(APPEND sanitize -fno-sanitize-recover=all)
  endif()
  target_compile_options(kvern_options INTERFACE ${sanitize})
  target_link_options(kvern_options INTERFACE -fsanitize=${KVERN_SANITIZE})
endif()

# kvern_library(NAME [DEPENDS lib...]): a library of this folder's *.cpp, tests left out; and, from its *_test.cpp, one
# test program NAME_test. Files of subfolders are not taken: a subfolder is a library of its own.
function(kvern_library name)
  cmake_parse_arguments(arg "" "" "DEPENDS;TEST_DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|main)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC kvern_options ${arg_DEPENDS} PRIVATE kvern_build)
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE kvern_options ${arg_DEPENDS})
  endif()
  if(KVERN_TESTS AND tests)
    kvern_test(${name}_test SOURCES ${tests} DEPENDS ${name} ${arg_TEST_DEPENDS})
  endif()
endfunction()

# kvern_test(NAME SOURCES file... [DEPENDS lib...] [LABEL label]): one GoogleTest program; each of its tests is a CTest
# test. Label "release": too slow with sanitizers.
function(kvern_test name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE kvern_options kvern_build ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE KVERN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300 LABELS "${arg_LABEL}")
endfunction()
