# Finds <dlpack/dlpack.h>, new enough to have the C exchange API, and sets isthmus_dlpack_dir.
# Each place is asked in turn, and one that is too old does not hide a newer one behind it. What is found is not cached:
# an isolated build has its requirements in a new folder each time.
set(ISTHMUS_DLPACK_REQUIRED "1.3")
set(ISTHMUS_DLPACK_INCLUDE_DIR "" CACHE PATH "Folder that holds dlpack/dlpack.h, where it is not to be searched for")
# The folder that the command in the error message below puts the header in, so that no environment is changed.
set(isthmus_dlpack_download "${CMAKE_BINARY_DIR}/_deps/isthmus-dlpack")

function(isthmus_dlpack_version dir out)
  file(STRINGS "${dir}/dlpack/dlpack.h" lines REGEX "^#define DLPACK_M(AJOR|INOR)_VERSION")
  set(major 0)
  set(minor 0)
  if(lines MATCHES "DLPACK_MAJOR_VERSION +([0-9]+)")
    set(major ${CMAKE_MATCH_1})
  endif()
  if(lines MATCHES "DLPACK_MINOR_VERSION +([0-9]+)")
    set(minor ${CMAKE_MATCH_1})
  endif()
  set(${out} "${major}.${minor}" PARENT_SCOPE)
endfunction()

function(isthmus_find_dlpack)
  set(places)
  if(ISTHMUS_DLPACK_INCLUDE_DIR)
    list(APPEND places "${ISTHMUS_DLPACK_INCLUDE_DIR}")
  else()
    find_package(dlpack CONFIG QUIET)
    if(TARGET dlpack::dlpack)
      get_target_property(dirs dlpack::dlpack INTERFACE_INCLUDE_DIRECTORIES)
      # A target of the same tree names the folder of its sources in a generator expression, Conan's one for its build type.
      list(TRANSFORM dirs REPLACE "^\\$<(BUILD_INTERFACE|\\$<CONFIG:[^>]*>):(.*)>$" "\\2")
      list(APPEND places ${dirs})
    endif()
    list(APPEND places "${isthmus_dlpack_download}/tvm_ffi/include")
    if(Python_EXECUTABLE)
      # find_spec does not import the package, so nothing of it is loaded just to learn a path.
      execute_process(
        COMMAND "${Python_EXECUTABLE}" -c
                "import sys, importlib.util as u; s = u.find_spec('tvm_ffi'); print(*(s.submodule_search_locations if s else ()), sys.prefix, sep=';')"
        OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      foreach(dir IN LISTS found)
        list(APPEND places "${dir}/include")
      endforeach()
    endif()
    find_path(isthmus_dlpack_on_system dlpack/dlpack.h)
    mark_as_advanced(isthmus_dlpack_on_system)
    if(isthmus_dlpack_on_system)
      list(APPEND places "${isthmus_dlpack_on_system}")
    endif()
  endif()

  set(refused "")
  foreach(dir IN LISTS places)
    if(EXISTS "${dir}/dlpack/dlpack.h")
      isthmus_dlpack_version("${dir}" version)
      if(version VERSION_GREATER_EQUAL ISTHMUS_DLPACK_REQUIRED AND version VERSION_LESS 2)
        message(STATUS "isthmus: dlpack.h ${version} in ${dir}")
        set(isthmus_dlpack_dir "${dir}" PARENT_SCOPE)
        return()
      endif()
      string(APPEND refused "\n  found, but of version ${version}: ${dir}/dlpack/dlpack.h")
    endif()
  endforeach()
  set(python "${Python_EXECUTABLE}")
  if(NOT python)
    set(python python3)
  endif()
  message(
    FATAL_ERROR
      "isthmus: <dlpack/dlpack.h> ${ISTHMUS_DLPACK_REQUIRED} or newer (below 2.0) is needed and was not found.${refused}\n"
      "This line fetches it into the build folder, where it is found:\n"
      "  \"${python}\" -m pip install --no-deps --target \"${isthmus_dlpack_download}\" apache-tvm-ffi\n"
      "Or install dlpack for CMake or the system, define the target dlpack::dlpack first, or name the header's folder: "
      "-DISTHMUS_DLPACK_INCLUDE_DIR=DIR")
endfunction()

isthmus_find_dlpack()
