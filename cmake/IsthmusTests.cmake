# The tests mirror the folders of include/. A folder without sources yet adds nothing.
include(IsthmusGTest)
include(GoogleTest)

function(isthmus_add_gtest name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${folder}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "/(ext|compile_fail|fixtures)/")
  if(NOT sources)
    return()
  endif()
  isthmus_provide_gtest()
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/${folder}")
  target_link_libraries(${name} PRIVATE ${ARGN} GTest::gtest_main isthmus_build_flags)
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h>) # four fifths of what most of these files compile
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
  target_link_libraries(${name} PRIVATE ${ARGN} isthmus_build_flags)
endfunction()

# Every header compiles on its own. Those of the core do so without Python's folder, so none can come to need it.
function(isthmus_check_headers name target)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include" ${ARGN})
  set(sources)
  foreach(header IN LISTS headers)
    string(MAKE_C_IDENTIFIER "${header}" file)
    set(source "${PROJECT_BINARY_DIR}/headers/${file}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include <${header}>\n")
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
                          "${headers}/fields.h" "${headers}/tree.h")
  endif()
endif()

isthmus_add_gtest(isthmus_core_tests core isthmus_core)
isthmus_add_gtest(isthmus_shared_tests shared isthmus_core)
isthmus_add_gtest(isthmus_load_tests load isthmus_core)
add_subdirectory("${PROJECT_SOURCE_DIR}/tests/core/compile_fail" "${PROJECT_BINARY_DIR}/tests/core/compile_fail")
isthmus_add_test_module(isthmus_test_ext python/ext isthmus_python)
add_subdirectory("${PROJECT_SOURCE_DIR}/tests/adapters" "${PROJECT_BINARY_DIR}/tests/adapters")
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
