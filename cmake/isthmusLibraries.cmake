# Defines isthmus::core, isthmus::python and isthmus::header_only from the sources: in Isthmus's own build, and in that of a user of
# the installed package, since what is compiled must fit the user's compiler, flags and Python.

# What every target says of the headers. `dlpack` is a folder, or empty where a target of that name has it.
function(isthmus_use_headers target visibility include dlpack)
  target_compile_features(${target} ${visibility} cxx_std_20)
  target_include_directories(${target} ${visibility} "${include}")
  if(dlpack) # as a system folder: we cannot fix the warnings of another project's header
    target_include_directories(${target} SYSTEM ${visibility} "${dlpack}")
  endif()
  if(TARGET dlpack::dlpack AND NOT dlpack)
    target_link_libraries(${target} ${visibility} dlpack::dlpack)
  endif()
endfunction()

# A static library of `ARGN`, compiled once, when somebody links it. A module takes of it what it calls and no more.
function(isthmus_define_library name)
  add_library(isthmus_${name} STATIC EXCLUDE_FROM_ALL ${ARGN})
  add_library(isthmus::${name} ALIAS isthmus_${name})
  set_target_properties(
    isthmus_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden CXX_SCAN_FOR_MODULES OFF UNITY_BUILD OFF)
  # A debug build of a program also checks in every call whether the GIL is held.
  target_compile_definitions(isthmus_${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:NDEBUG>)
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(isthmus_${name} PRIVATE -O2 -ffunction-sections -fdata-sections)
    if(APPLE)
      target_link_options(isthmus_${name} INTERFACE LINKER:-dead_strip)
    elseif(NOT WIN32)
      target_link_options(isthmus_${name} INTERFACE LINKER:--gc-sections)
    endif()
  endif()
endfunction()

# `include` holds isthmus/, `source` core.cpp and the others.
macro(isthmus_define_libraries include source dlpack)
  if(NOT TARGET isthmus_core)
    isthmus_define_library(core "${source}/core.cpp")
    isthmus_use_headers(isthmus_core PUBLIC "${include}" "${dlpack}")
    target_link_libraries(isthmus_core PUBLIC ${CMAKE_DL_LIBS})
    add_library(isthmus_header_only INTERFACE)
    add_library(isthmus::header_only ALIAS isthmus_header_only)
    isthmus_use_headers(isthmus_header_only INTERFACE "${include}" "${dlpack}")
    target_link_libraries(isthmus_header_only INTERFACE ${CMAKE_DL_LIBS})
  endif()
  if(TARGET Python::Module AND NOT TARGET isthmus_python)
    isthmus_define_library(python "${source}/bridge.cpp")
    target_link_libraries(isthmus_python PUBLIC isthmus_core Python::Module)
    target_link_libraries(isthmus_header_only INTERFACE Python::Module)
  endif()
endmacro()
