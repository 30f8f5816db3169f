# Where things are installed, and the targets of the library; see docs/architecture.md for what each may include.
if(ISTHMUS_WHEEL_LAYOUT)
  set(ISTHMUS_INSTALL_LIBDIR isthmus/lib)
  set(ISTHMUS_INSTALL_INCLUDEDIR isthmus/include)
else()
  set(ISTHMUS_INSTALL_LIBDIR ${CMAKE_INSTALL_LIBDIR})
  set(ISTHMUS_INSTALL_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
endif()

include(isthmusLibraries)
isthmus_define_libraries("${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${isthmus_dlpack_dir}")
if(ISTHMUS_TORCH)
  include(isthmusTorch)
  isthmus_add_torch_target("${PROJECT_SOURCE_DIR}/src")
endif()

foreach(library IN ITEMS isthmus_core isthmus_python isthmus_torch)
  if(TARGET ${library})
    target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:isthmus_build_flags>)
    if(ISTHMUS_BUILD_TESTS) # which look at what debug builds check, whatever the build type
      target_compile_options(${library} PRIVATE -UNDEBUG)
    endif()
  endif()
endforeach()
