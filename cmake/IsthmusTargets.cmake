# One target per layer; see docs/ for what each may include.
if(ISTHMUS_WHEEL_LAYOUT)
  set(ISTHMUS_INSTALL_PREFIX isthmus/)
  set(ISTHMUS_INSTALL_LIBDIR isthmus/lib)
  set(ISTHMUS_INSTALL_INCLUDEDIR isthmus/include)
else()
  set(ISTHMUS_INSTALL_PREFIX "")
  set(ISTHMUS_INSTALL_LIBDIR ${CMAKE_INSTALL_LIBDIR})
  set(ISTHMUS_INSTALL_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
endif()

add_library(isthmus_core INTERFACE)
add_library(isthmus::core ALIAS isthmus_core)
set_target_properties(isthmus_core PROPERTIES EXPORT_NAME core)
target_compile_features(isthmus_core INTERFACE cxx_std_20)
target_include_directories(
  isthmus_core INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                         $<INSTALL_INTERFACE:${ISTHMUS_INSTALL_INCLUDEDIR}>)
# As a system folder: we cannot fix the warnings of another project's header.
target_include_directories(isthmus_core SYSTEM
                           INTERFACE $<BUILD_INTERFACE:${isthmus_dlpack_dir}>)
if(NOT ISTHMUS_INSTALL_DLPACK)
  # A package manager's own: two packages must not install the same file.
  target_link_libraries(isthmus_core INTERFACE $<INSTALL_INTERFACE:dlpack::dlpack>)
endif()

add_library(isthmus_python INTERFACE)
set_target_properties(isthmus_python PROPERTIES EXPORT_NAME python)
target_link_libraries(isthmus_python INTERFACE isthmus_core ${CMAKE_DL_LIBS})
if(TARGET Python::Module)
  add_library(isthmus::python ALIAS isthmus_python)
  target_link_libraries(isthmus_python INTERFACE $<BUILD_INTERFACE:Python::Module>)
endif()

# The bridge compiled once per target instead of in every file: the source comes along, as it must fit the target's own Python.
add_library(isthmus_python_compiled INTERFACE)
add_library(isthmus::python_compiled ALIAS isthmus_python_compiled)
set_target_properties(isthmus_python_compiled PROPERTIES EXPORT_NAME python_compiled)
target_link_libraries(isthmus_python_compiled INTERFACE isthmus_python)
target_compile_definitions(isthmus_python_compiled INTERFACE ISTHMUS_COMPILED)
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang" AND NOT APPLE)
  # What the module does not call (a whole half of the bridge, where it only imports) is left out of it.
  target_compile_options(isthmus_python_compiled INTERFACE -ffunction-sections -fdata-sections)
  target_link_options(isthmus_python_compiled INTERFACE -Wl,--gc-sections)
endif()
target_sources(
  isthmus_python_compiled
  INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src/python/isthmus_python.cpp>
            $<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${ISTHMUS_INSTALL_INCLUDEDIR}/isthmus/python/isthmus_python.cpp>)

if(ISTHMUS_TORCH)
  include(isthmusTorch)
  isthmus_add_torch_target(isthmus_python)
endif()
