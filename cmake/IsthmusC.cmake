# libisthmus: the C ABI, for runtimes that are neither C++ nor Python.
file(GLOB isthmus_c_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/c/*.cpp")
file(GLOB isthmus_c_map CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/c/*.map")
if(NOT isthmus_c_sources)
  message(STATUS "isthmus: src/c holds no source, so isthmus::c is not defined")
  return()
endif()

add_library(isthmus_c SHARED ${isthmus_c_sources})
add_library(isthmus::c ALIAS isthmus_c)
# No VERSION and no SOVERSION: its symbols have the version of the C ABI. A wheel cannot hold the links of a versioned
# file name, and a process that has the library of a wheel and that of a prefix must not have two.
set_target_properties(isthmus_c PROPERTIES EXPORT_NAME c OUTPUT_NAME isthmus)
target_link_libraries(isthmus_c PRIVATE isthmus_core $<BUILD_INTERFACE:isthmus_build_flags>)
target_include_directories(
  isthmus_c INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                      $<INSTALL_INTERFACE:${ISTHMUS_INSTALL_INCLUDEDIR}>)
target_include_directories(isthmus_c SYSTEM
                           INTERFACE $<BUILD_INTERFACE:${isthmus_dlpack_dir}>)
if(isthmus_c_map AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_link_options(isthmus_c PRIVATE "LINKER:--version-script=${isthmus_c_map}")
  set_target_properties(isthmus_c PROPERTIES LINK_DEPENDS "${isthmus_c_map}")
endif()
