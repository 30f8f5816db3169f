# Installs the headers, the libraries, the CMake package and the pkg-config files; one layout for a prefix and,
# below isthmus/, for the wheel.
include(CMakePackageConfigHelpers)

set(cmake_dir "${ISTHMUS_INSTALL_LIBDIR}/cmake/isthmus")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/isthmus"
        DESTINATION "${ISTHMUS_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
if(ISTHMUS_INSTALL_DLPACK)
  # A user of the installed headers needs no build requirement of ours.
  install(FILES "${isthmus_dlpack_dir}/dlpack/dlpack.h"
          DESTINATION "${ISTHMUS_INSTALL_INCLUDEDIR}/dlpack")
endif()

# The bodies, which are compiled in the build of whoever links them.
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/src/"
  DESTINATION "${ISTHMUS_INSTALL_INCLUDEDIR}/isthmus/src"
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "*.cpp"
  PATTERN "src/package" EXCLUDE
  PATTERN "src/c" EXCLUDE)

# A prefix has the core compiled as well, for pkg-config; the bridge is of one Python, whose package has it.
if(NOT ISTHMUS_WHEEL_LAYOUT)
  set_target_properties(isthmus_core PROPERTIES EXCLUDE_FROM_ALL OFF)
  install(TARGETS isthmus_core ARCHIVE DESTINATION "${ISTHMUS_INSTALL_LIBDIR}")
endif()
if(TARGET isthmus_c)
  install(TARGETS isthmus_c EXPORT isthmusTargets DESTINATION "${ISTHMUS_INSTALL_LIBDIR}")
  install(EXPORT isthmusTargets NAMESPACE isthmus:: DESTINATION "${cmake_dir}")
endif()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/isthmusConfig.cmake.in" "${PROJECT_BINARY_DIR}/isthmusConfig.cmake"
  INSTALL_DESTINATION "${cmake_dir}" NO_SET_AND_CHECK_MACRO
  PATH_VARS ISTHMUS_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/isthmusConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/isthmusConfig.cmake"
              "${PROJECT_BINARY_DIR}/isthmusConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/isthmusLibraries.cmake" "${PROJECT_SOURCE_DIR}/cmake/isthmusTorch.cmake"
        DESTINATION "${cmake_dir}")

# The release of the libstdc++ that the libraries are compiled with, 0 for another C++ library: see ISTHMUS_PREBUILT in
# config.h.
function(isthmus_cxx_library_release out)
  set(source "${PROJECT_BINARY_DIR}/cxx_library.cpp")
  file(WRITE "${source}" "#include <cstddef>\nrelease=_GLIBCXX_RELEASE\n")
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" ${flags} -E -P "${source}" OUTPUT_VARIABLE text ERROR_QUIET)
  if(text MATCHES "release=[ \n]*([0-9]+)")
    set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
  else()
    set(${out} 0 PARENT_SCOPE)
  endif()
endfunction()

# NAME.pc with paths relative to the file itself, so that a wheel or a prefix may be moved.
function(isthmus_install_pc name)
  set(folder "${ISTHMUS_INSTALL_LIBDIR}/pkgconfig")
  file(RELATIVE_PATH isthmus_pc_include "/${folder}" "/${ISTHMUS_INSTALL_INCLUDEDIR}")
  file(RELATIVE_PATH isthmus_pc_lib "/${folder}" "/${ISTHMUS_INSTALL_LIBDIR}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${folder}")
endfunction()

isthmus_cxx_library_release(isthmus_pc_release)
set(isthmus_pc_unused "-Wl,--gc-sections")
if(APPLE)
  set(isthmus_pc_unused "-Wl,-dead_strip")
endif()
set(isthmus_pc_dl)
if(CMAKE_DL_LIBS)
  set(isthmus_pc_dl "-l${CMAKE_DL_LIBS}")
endif()
if(ISTHMUS_WHEEL_LAYOUT)
  set(isthmus_pc_libs "\${libdir}/isthmus.o")
else()
  set(isthmus_pc_libs "-L\${libdir} -listhmus_core")
endif()
isthmus_install_pc(isthmus)
isthmus_install_pc(isthmus-abi3)
if(TARGET isthmus_c)
  isthmus_install_pc(isthmus-c)
endif()

if(TARGET isthmus_module)
  install(TARGETS isthmus_module DESTINATION isthmus)
  install(FILES "${isthmus_object}" DESTINATION isthmus/lib)
  if(NOT SKBUILD)
    # The wheel's builder takes the Python files itself; a build tree that runs without pip needs them too.
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/python/isthmus" DESTINATION .
            FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "*.in")
  endif()
endif()
