# isthmus._isthmus: the extension module of the Python package.
file(GLOB isthmus_package_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/package/*.cpp")
if(NOT isthmus_package_sources)
  message(STATUS "isthmus: src/package holds no source, so the extension module is not built")
  return()
endif()

Python_add_library(isthmus_module MODULE WITH_SOABI ${isthmus_package_sources} "${PROJECT_SOURCE_DIR}/src/backend/backend.cpp")
set_target_properties(
  isthmus_module PROPERTIES OUTPUT_NAME _isthmus
                            LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/package"
                            UNITY_BUILD ${ISTHMUS_UNITY_BUILD}
                            UNITY_BUILD_BATCH_SIZE 0)
target_link_libraries(isthmus_module PRIVATE isthmus_python isthmus_build_flags)

# The bridge of this Python, compiled, for modules that are linked without CMake. One object, of which the linker takes what
# is called: an archive in front of the sources on a command line would link to nothing.
set(isthmus_object "${PROJECT_BINARY_DIR}/package/isthmus.o")
add_custom_command(
  OUTPUT "${isthmus_object}"
  COMMAND "${CMAKE_CXX_COMPILER}" -r -nostdlib $<$<BOOL:${APPLE}>:-Wl,-keep_private_externs> -o "${isthmus_object}"
          $<TARGET_OBJECTS:isthmus_core> $<TARGET_OBJECTS:isthmus_python>
  DEPENDS $<TARGET_OBJECTS:isthmus_core> $<TARGET_OBJECTS:isthmus_python>
  COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(isthmus_object ALL DEPENDS "${isthmus_object}")
