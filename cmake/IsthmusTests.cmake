# The tests mirror the folders of include/. A folder without sources yet adds nothing.
include(IsthmusGTest)
include(GoogleTest)

function(isthmus_add_gtest name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${folder}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "/(ext|compile_fail|fixtures)/")
  if(NOT sources OR NOT ISTHMUS_GTEST)
    return()
  endif()
  isthmus_provide_gtest()
  add_executable(${name} ${sources})
  # Tests may look at internals: "src/core/symbols.h".
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/tests/${folder}")
  target_link_libraries(${name} PRIVATE ${ARGN} GTest::gtest_main isthmus_build_flags)
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h>) # four fifths of what most of these files compile
  # The files use mostly the same templates: together they take half the time, and several units share the cores.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${ISTHMUS_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 10)
  foreach(source IN LISTS sources)
    file(STRINGS "${source}" configured REGEX "^#define ISTHMUS_")
    if(configured) # the headers are to see it here alone
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 120)
endfunction()

# An extension module for pytest, of every source below a folder; it lands in <build>/ext.
function(isthmus_add_test_module name folder)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${folder}/*.cpp")
  if(NOT sources OR NOT COMMAND Python_add_library)
    return()
  endif()
  Python_add_library(${name} MODULE WITH_SOABI ${sources})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/ext"
                                           UNITY_BUILD ${ISTHMUS_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 0)
  # Tests look at what debug builds check, whatever the build type.
  target_compile_options(${name} PRIVATE -UNDEBUG)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARGN} isthmus_build_flags)
endfunction()

# All that a header of ours includes, directly or not, in `out`.
function(isthmus_included_by header out)
  get_property(known GLOBAL PROPERTY "isthmus_included_by_${header}" SET)
  if(NOT known)
    set_property(GLOBAL PROPERTY "isthmus_included_by_${header}" "") # two headers may include each other
    file(STRINGS "${PROJECT_SOURCE_DIR}/include/${header}" lines REGEX "^ *# *include <isthmus/")
    set(all)
    foreach(line IN LISTS lines)
      string(REGEX REPLACE ".*<(.*)>.*" "\\1" direct "${line}")
      isthmus_included_by("${direct}" more)
      list(APPEND all "${direct}" ${more})
    endforeach()
    list(REMOVE_DUPLICATES all)
    set_property(GLOBAL PROPERTY "isthmus_included_by_${header}" "${all}")
  endif()
  get_property(all GLOBAL PROPERTY "isthmus_included_by_${header}")
  set(${out} "${all}" PARENT_SCOPE)
endfunction()

# Every header compiles on its own. Those of the core do so without Python's folder, so none can come to need it. A source may
# include a second header behind the first where the second includes the first itself: it finds no name there that is not its own
# to find. A third of the sources are enough so.
function(isthmus_check_headers name target)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include" ${ARGN})
  list(FILTER headers EXCLUDE REGEX "^isthmus/backend/") # of the stable ABI, whose mode this is not
  set(by_size)
  foreach(header IN LISTS headers)
    isthmus_included_by("${header}" included)
    list(LENGTH included size)
    list(APPEND by_size "${size} ${header}")
  endforeach()
  list(SORT by_size COMPARE NATURAL)
  set(last) # the last header of each source so far, those that include most behind
  foreach(entry IN LISTS by_size)
    string(REGEX REPLACE "^[0-9]+ " "" header "${entry}")
    isthmus_included_by("${header}" included)
    set(first)
    foreach(candidate IN LISTS last)
      if(candidate IN_LIST included)
        set(first "${candidate}")
      endif()
    endforeach()
    if(first)
      list(REMOVE_ITEM last "${first}")
    endif()
    list(APPEND last "${header}")
    set("text_of_${header}" "${text_of_${first}}#include <${header}>\n")
  endforeach()
  set(sources)
  foreach(header IN LISTS last)
    string(MAKE_C_IDENTIFIER "${header}" file)
    set(source "${PROJECT_BINARY_DIR}/headers/${file}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "${text_of_${header}}")
    list(APPEND sources "${source}")
  endforeach()
  if(sources)
    add_library(${name} OBJECT ${sources})
    target_link_libraries(${name} PRIVATE ${target} isthmus_build_flags)
    target_compile_options(${name} PRIVATE -O0 -g0)
  endif()
endfunction()

if(ISTHMUS_CHECK_HEADERS)
  set(headers "${PROJECT_SOURCE_DIR}/include/isthmus")
  isthmus_check_headers(isthmus_core_headers isthmus_core "${headers}/core/*.h" "${headers}/isthmus.h"
                        "${headers}/shared/*.h" "${headers}/shared.h" "${headers}/load/*.h" "${headers}/load.h" "${headers}/small_floats.h" "${headers}/visit.h"
                        "${headers}/converted.h")
  if(TARGET isthmus::python)
    isthmus_check_headers(isthmus_python_headers isthmus_python "${headers}/python/*.h" "${headers}/python.h" "${headers}/op.h"
                          "${headers}/fields.h" "${headers}/records.h" "${headers}/tree.h" "${headers}/module.h"
                          "${headers}/array_like.h" "${headers}/owned.h")
  endif()
endif()

isthmus_add_gtest(isthmus_core_tests core isthmus_core)
isthmus_add_gtest(isthmus_shared_tests shared isthmus_core)
isthmus_add_gtest(isthmus_load_tests load isthmus_core)
if(NOT ISTHMUS_SANITIZE) # nothing of it runs, and the other builds have looked at it
  add_subdirectory("${PROJECT_SOURCE_DIR}/tests/core/compile_fail" "${PROJECT_BINARY_DIR}/tests/core/compile_fail")
  if(NOT WIN32)
    add_subdirectory("${PROJECT_SOURCE_DIR}/tests/core/fixtures/bounds" "${PROJECT_BINARY_DIR}/tests/core/bounds")
  endif()
endif()
isthmus_add_test_module(isthmus_test_ext python/ext isthmus_python)
if(ISTHMUS_GTEST)
  add_subdirectory("${PROJECT_SOURCE_DIR}/tests/adapters" "${PROJECT_BINARY_DIR}/tests/adapters")
endif()
if(COMMAND Python_add_library)
  add_subdirectory("${PROJECT_SOURCE_DIR}/tests/casters" "${PROJECT_BINARY_DIR}/tests/casters")
  add_subdirectory("${PROJECT_SOURCE_DIR}/tests/operators" "${PROJECT_BINARY_DIR}/tests/operators")
endif()

if(TARGET isthmus_c)
  isthmus_add_gtest(isthmus_c_tests c isthmus_c)
  # Real C programs, each a test by its exit code: the header must be C.
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/c/*.c")
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(isthmus_c_${name} "${source}")
    target_link_libraries(isthmus_c_${name} PRIVATE isthmus_c isthmus_build_flags)
    add_test(NAME c.${name} COMMAND isthmus_c_${name})
  endforeach()
endif()

# The bridge to torch needs no libtorch: neither to compile nor to load.
isthmus_add_test_module(isthmus_torch_stable_ext torch/stable isthmus_python)
if(TARGET isthmus::torch)
  isthmus_add_test_module(isthmus_torch_test_ext torch isthmus::torch)
endif()
