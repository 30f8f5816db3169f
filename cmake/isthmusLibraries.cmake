# Defines isthmus::core, isthmus::python, isthmus::header_only, isthmus::abi3 and isthmus_add_backend() from the sources: in
# Isthmus's own build, and in that of a user of the installed package, since what is compiled must fit the user's compiler,
# flags and Python.

# isthmus::NAME is an imported name of the target isthmus_NAME: a library that links it may be installed and exported.
function(isthmus_publish name)
  add_library(isthmus::${name} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(isthmus::${name} INTERFACE isthmus_${name})
endfunction()

# What every target says of the headers. `dlpack` is a folder, or empty if a target of that name has it.
function(isthmus_use_headers target visibility include dlpack)
  set(system) # for the installed package, which does not define ISTHMUS_TOP_LEVEL: a user's warnings are of the user's code
  if(NOT DEFINED ISTHMUS_TOP_LEVEL)
    set(system SYSTEM)
  endif()
  target_compile_features(${target} ${visibility} cxx_std_20)
  target_include_directories(${target} ${system} ${visibility} "${include}")
  if(dlpack)
    target_include_directories(${target} SYSTEM ${visibility} "${dlpack}")
  endif()
  if(TARGET dlpack::dlpack AND NOT dlpack)
    target_link_libraries(${target} ${visibility} dlpack::dlpack)
  endif()
endfunction()

# Each function in a section (said to `compile`: PRIVATE, INTERFACE), of which the linker takes what is called.
function(isthmus_drop_unused target compile)
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(${target} ${compile} $<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections>
                                                $<$<COMPILE_LANGUAGE:CXX>:-fdata-sections>)
    if(APPLE)
      target_link_options(${target} INTERFACE LINKER:-dead_strip)
    elseif(NOT WIN32)
      target_link_options(${target} INTERFACE LINKER:--gc-sections)
    endif()
  endif()
endfunction()

# A static library of `ARGN`, compiled once, when somebody links it. It is optimised in every build type.
function(isthmus_define_library name)
  add_library(isthmus_${name} STATIC EXCLUDE_FROM_ALL ${ARGN})
  isthmus_publish(${name})
  set_target_properties(
    isthmus_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden CXX_SCAN_FOR_MODULES OFF
                               UNITY_BUILD OFF)
  # A debug build of a program also checks in every call whether the GIL is held.
  target_compile_definitions(isthmus_${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:NDEBUG>)
  isthmus_drop_unused(isthmus_${name} PRIVATE)
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(isthmus_${name} PRIVATE -O2)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # a tenth of a module; what the fast paths need inlined says so itself
      target_compile_options(isthmus_${name} PRIVATE --param=max-inline-insns-single=20 -fno-reorder-blocks-and-partition
                                                     -fno-align-functions -fno-align-jumps -fno-align-loops)
    endif()
    if(NOT ISTHMUS_TOP_LEVEL) # a part of another project, whose warnings (errors, perhaps) are not for these sources
      target_compile_options(isthmus_${name} PRIVATE -w)
      set_target_properties(isthmus_${name} PROPERTIES CXX_CLANG_TIDY "" CXX_CPPCHECK "" CXX_INCLUDE_WHAT_YOU_USE "")
    endif()
  endif()
endfunction()

# A library is optimised whatever is said; that the code around it is not, few want.
function(isthmus_warn_without_build_type)
  get_property(several GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT CMAKE_BUILD_TYPE AND NOT several AND NOT CMAKE_CXX_FLAGS MATCHES "-O")
    message(NOTICE "isthmus: no CMAKE_BUILD_TYPE is set: Isthmus is optimised and ${PROJECT_NAME} is not "
                   "(-DCMAKE_BUILD_TYPE=Release)")
  endif()
endfunction()

# Relative relocations, packed, if the linker can: 4 % of a module. It loads with glibc 2.36 and newer, which a module that is
# used where it is built has already; wheels go elsewhere.
function(isthmus_pack_relocations target)
  if(SKBUILD OR CMAKE_CROSSCOMPILING OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    return()
  endif()
  if(NOT DEFINED ISTHMUS_PACK_RELOCATIONS)
    set(source "${CMAKE_BINARY_DIR}/CMakeFiles/isthmus_glibc.cpp")
    file(WRITE "${source}" "#include <cstddef>\nglibc=__GLIBC_MINOR__\n")
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -E -P "${source}" OUTPUT_VARIABLE text ERROR_QUIET)
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -Wl,--help OUTPUT_VARIABLE help ERROR_QUIET)
    set(pack OFF)
    if(text MATCHES "glibc=[ \n]*([0-9]+)" AND CMAKE_MATCH_1 GREATER_EQUAL 36 AND help MATCHES "pack-relative-relocs")
      set(pack ON)
    endif()
    set(ISTHMUS_PACK_RELOCATIONS ${pack} CACHE BOOL "Pack the relocations of what links isthmus::python (glibc 2.36)")
  endif()
  if(ISTHMUS_PACK_RELOCATIONS)
    target_link_options(${target} INTERFACE LINKER:-z,pack-relative-relocs)
  endif()
endfunction()

# The name of a library that ended: the first header tells whoever links it what to write.
function(isthmus_end_target old new)
  add_library(isthmus::${old} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(isthmus::${old} INTERFACE isthmus::${new})
  target_compile_definitions(isthmus::${old} INTERFACE ISTHMUS_COMPILED)
endfunction()

# Modules of the stable ABI, which link nothing: isthmus::abi3, or isthmus::backend for those of one Python, as pybind11's.
function(isthmus_define_front_ends include dlpack)
  add_library(isthmus_backend INTERFACE)
  isthmus_publish(backend)
  isthmus_use_headers(isthmus_backend INTERFACE "${include}" "${dlpack}")
  isthmus_drop_unused(isthmus_backend INTERFACE)
  target_compile_definitions(isthmus_backend INTERFACE ISTHMUS_BACKEND)
  add_library(isthmus_abi3 INTERFACE)
  isthmus_publish(abi3)
  target_link_libraries(isthmus_abi3 INTERFACE isthmus_backend)
  target_compile_definitions(isthmus_abi3 INTERFACE ISTHMUS_ABI3)
  target_link_libraries(isthmus_backend INTERFACE Python::Module)
endfunction()

# A backend that a project carries itself, in place of the package's: the module `target`, imported as `module`
# ("mine._backend"). Its front ends are compiled with ISTHMUS_BACKEND_MODULE="mine._backend", as `target`_modules says.
function(isthmus_add_backend target module)
  string(REGEX REPLACE ".*\\." "" name "${module}")
  Python_add_library(${target} MODULE WITH_SOABI "${ISTHMUS_SOURCE_FOLDER}/backend/backend.cpp"
                     "${ISTHMUS_SOURCE_FOLDER}/backend/module.cpp")
  set_target_properties(${target} PROPERTIES OUTPUT_NAME "${name}" CXX_VISIBILITY_PRESET hidden UNITY_BUILD OFF)
  target_compile_definitions(${target} PRIVATE ISTHMUS_BACKEND_NAME=${name} NDEBUG)
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(${target} PRIVATE -O2)
  endif()
  target_link_libraries(${target} PRIVATE isthmus_python)
  add_library(${target}_modules INTERFACE)
  target_compile_definitions(${target}_modules INTERFACE "ISTHMUS_BACKEND_MODULE=\"${module}\"")
  target_link_libraries(${target}_modules INTERFACE isthmus_abi3)
endfunction()

# `include` holds isthmus/, `source` core.cpp and the others.
macro(isthmus_define_libraries include source dlpack)
  if(NOT TARGET isthmus_core)
    isthmus_define_library(core "${source}/core.cpp" "${source}/shared.cpp" "${source}/load.cpp")
    isthmus_use_headers(isthmus_core PUBLIC "${include}" "${dlpack}")
    target_link_libraries(isthmus_core PUBLIC ${CMAKE_DL_LIBS})
    add_library(isthmus_header_only INTERFACE)
    isthmus_publish(header_only)
    isthmus_use_headers(isthmus_header_only INTERFACE "${include}" "${dlpack}")
    isthmus_drop_unused(isthmus_header_only INTERFACE)
    target_link_libraries(isthmus_header_only INTERFACE ${CMAKE_DL_LIBS})
    isthmus_warn_without_build_type()
  endif()
  if(TARGET Python::Module AND NOT TARGET isthmus_python)
    isthmus_define_library(python "${source}/bridge.cpp")
    isthmus_pack_relocations(isthmus_python)
    isthmus_end_target(python_compiled python)
    target_link_libraries(isthmus_python PUBLIC isthmus_core Python::Module)
    target_link_libraries(isthmus_header_only INTERFACE Python::Module)
    if(ISTHMUS_PRECOMPILED_HEADERS) # by every target that links it
      target_precompile_headers(isthmus_python INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:<isthmus/python.h$<ANGLE-R>>")
    endif()
    isthmus_define_front_ends("${include}" "${dlpack}")
    set(ISTHMUS_SOURCE_FOLDER "${source}" CACHE INTERNAL "")
  endif()
endmacro()
