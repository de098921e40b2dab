# r2ccl_folder(name): one static library per folder of src/, made of its *.cc, linking exactly its row of layers.txt, and one
# test program made of its *_test.cc.
#   WHOLE      its sources are compiled in one piece, so that they inline each other: for what a message passes through
#   PARSE_ONCE headers that most of its files include, besides those of all folders
#   LABEL      ctest label of those tests; `unit` unless said otherwise
#   LINK       libraries from outside the project
#   TEST_LINK  the same, for its tests only
#   LOOPBACK   sub-folders whose tests use real sockets or threads; each gets a program of its own, <folder>_<sub-folder>_test, label `loopback`
file(STRINGS ${CMAKE_SOURCE_DIR}/layers.txt R2CCL_LAYERS)

# What nearly every file includes anyway is parsed once: it halves the build. A file that forgets one of these includes compiles all
# the same; the preset `clang` builds without this and finds it.
set(common_headers <algorithm> <array> <chrono> <cstdint> <deque> <functional> <map> <memory> <optional> <span> <string> <vector>
                   <fmt/format.h>)
if(R2CCL_PRECOMPILED)
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cc "")
  add_library(r2ccl_precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(r2ccl_precompiled PRIVATE r2ccl_fmt)
  target_precompile_headers(r2ccl_precompiled PRIVATE ${common_headers})
endif()
# Tests are compiled once and run once: what they test is optimised, they are not. Sanitized it would take twice as long.
set(test_options $<$<CONFIG:Release>:-O1>)
if(R2CCL_SANITIZE)
  set(test_options -O0)
endif()
if(R2CCL_TESTS AND R2CCL_PRECOMPILED)
  # A program, because programs are compiled for other positions than libraries.
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled_main.cc "int main() {}\n")
  add_executable(r2ccl_precompiled_tests EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled_main.cc)
  target_link_libraries(r2ccl_precompiled_tests PRIVATE r2ccl_fmt GTest::gtest)
  target_compile_options(r2ccl_precompiled_tests PRIVATE ${test_options})
  target_precompile_headers(r2ccl_precompiled_tests PRIVATE ${common_headers} <gtest/gtest.h>)
endif()

# r2ccl_precompile(target FROM precompiled_target [OWN header...]): what it includes anyway is parsed once; with OWN, by itself.
function(r2ccl_precompile target)
  cmake_parse_arguments(ARG "" "FROM" "OWN" ${ARGN})
  if(NOT R2CCL_PRECOMPILED)
    return()
  endif()
  if(ARG_OWN)
    target_precompile_headers(${target} PRIVATE ${common_headers} ${ARG_OWN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${ARG_FROM})
  endif()
endfunction()

function(r2ccl_row folder out)
  foreach(line IN LISTS R2CCL_LAYERS)
    if(line MATCHES "^${folder}:[ ]*(.*)$")
      string(REGEX REPLACE "[ ]+" ";" row "${CMAKE_MATCH_1}")
      string(REGEX REPLACE "/[^;]*" "" row "${row}")
      set(${out} ${row} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "layers.txt has no row for ${folder}")
endfunction()

function(r2ccl_folder folder)
  cmake_parse_arguments(ARG "WHOLE" "LABEL" "LINK;TEST_LINK;LOOPBACK;PARSE_ONCE" ${ARGN})
  set(root ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${root}/*.cc)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${root}/*.h)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cc$")
  set(target r2ccl_${folder})
  r2ccl_row(${folder} row)
  list(TRANSFORM row PREPEND r2ccl_)
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${target} ${scope} ${row} r2ccl_fmt ${ARG_LINK})
  if(sources)
    r2ccl_precompile(${target} FROM r2ccl_precompiled OWN ${ARG_PARSE_ONCE})
    if(ARG_WHOLE AND R2CCL_WHOLE)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    endif()
  endif()
  # x.cc includes x.h first (a habit that is checked), so compiling it by itself shows that x.h stands alone; other headers are
  # compiled for that alone, by all_verify_interface_header_sets.
  set(headers_alone)
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "\\.h$" ".cc" source ${header})
    if(NOT source IN_LIST sources)
      list(APPEND headers_alone ${header})
    endif()
  endforeach()
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR}/src FILES ${headers_alone})
  if(NOT R2CCL_TESTS)
    return()
  endif()
  foreach(sub IN LISTS ARG_LOOPBACK)
    set(sub_tests ${tests})
    list(FILTER sub_tests INCLUDE REGEX "/${folder}/${sub}/")
    list(FILTER tests EXCLUDE REGEX "/${folder}/${sub}/")
    if(sub_tests)
      r2ccl_test(${folder}_${sub}_test SOURCES ${sub_tests} LINK ${target} LABEL loopback)
    endif()
  endforeach()
  if(tests)
    r2ccl_test(${folder}_test SOURCES ${tests} LINK ${target} ${ARG_TEST_LINK} LABEL ${ARG_LABEL})
  endif()
endfunction()

# All programs that start threads: what the thread sanitizer has to see.
add_custom_target(threaded_tests)

# One GoogleTest program; each of its tests is a ctest entry `<name without _test>/<Suite>.<Test>` with the label. Tests that bound real
# time (labels `…-timing`) need a quiet machine and run alone; of the labs of label `lab` there is one at a time.
#   LONG     begun before others, so that nothing waits for it in the end
#   TIMEOUT  when it is given up; what it may take is in tests/budgets.txt
function(r2ccl_test name)
  cmake_parse_arguments(ARG "LONG" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(R2CCL_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")
  endif()
  set(properties LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
  if(ARG_LONG)
    list(APPEND properties COST 1000)
  endif()
  if(ARG_LABEL MATCHES "-timing$")
    list(APPEND properties RUN_SERIAL TRUE)
  elseif(ARG_LABEL STREQUAL "lab")
    list(APPEND properties RESOURCE_LOCK lab COST 100)  # one after the other, so they begin early
  endif()
  string(REGEX REPLACE "_test$" "/" prefix ${name})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main GTest::gmock Threads::Threads)
  target_compile_options(${name} PRIVATE ${test_options})
  r2ccl_precompile(${name} FROM r2ccl_precompiled_tests)
  if(ARG_LABEL MATCHES "^loopback")
    add_dependencies(threaded_tests ${name})
  endif()
  gtest_discover_tests(${name} TEST_PREFIX ${prefix} DISCOVERY_TIMEOUT 60
                       PROPERTIES ${properties})
endfunction()
