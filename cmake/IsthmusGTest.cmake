# GoogleTest, from the first place that has it: the system, a Python package that ships its sources, its repository.
function(isthmus_provide_gtest)
  find_package(GTest QUIET)
  if(TARGET GTest::gtest_main)
    message(STATUS "isthmus: GoogleTest of the system")
    return()
  endif()

  # The package wraps plain sources, but its wheels are tagged for one Python each: any of them will do.
  set(root "${PROJECT_BINARY_DIR}/_deps/gtest-wheel")
  file(GLOB_RECURSE source "${root}/gtest-all.cc")
  if(NOT source AND Python_EXECUTABLE)
    message(STATUS "isthmus: fetching the sources of GoogleTest with pip")
    foreach(another IN ITEMS "" --python-version=3.13) # the newest Python may have none yet
      execute_process(
        COMMAND "${Python_EXECUTABLE}" -m pip download --quiet --no-deps --only-binary=:all: ${another}
                --dest "${root}" "ros-gtest-vendor>=1.14"
        OUTPUT_QUIET ERROR_QUIET)
      file(GLOB wheel "${root}/*.whl")
      if(wheel)
        break()
      endif()
    endforeach()
    if(wheel)
      list(GET wheel 0 wheel)
      file(ARCHIVE_EXTRACT INPUT "${wheel}" DESTINATION "${root}/files")
      file(GLOB_RECURSE source "${root}/gtest-all.cc")
    endif()
  endif()
  if(source)
    message(STATUS "isthmus: GoogleTest built from a wheel")
    get_filename_component(dir "${source}" DIRECTORY)
    get_filename_component(dir "${dir}" DIRECTORY)
    find_package(Threads REQUIRED)
    foreach(name IN ITEMS gtest gtest_main)
      add_library(isthmus_${name} STATIC)
      add_library(GTest::${name} ALIAS isthmus_${name})
      target_include_directories(isthmus_${name} SYSTEM PUBLIC "${dir}/include")
    endforeach()
    target_sources(isthmus_gtest PRIVATE "${dir}/src/gtest-all.cc")
    target_include_directories(isthmus_gtest PRIVATE "${dir}")
    target_link_libraries(isthmus_gtest PUBLIC Threads::Threads)
    target_sources(isthmus_gtest_main PRIVATE "${dir}/src/gtest_main.cc")
    target_link_libraries(isthmus_gtest_main PUBLIC isthmus_gtest)
    return()
  endif()

  message(STATUS "isthmus: fetching GoogleTest from its repository")
  include(FetchContent)
  FetchContent_Declare(
    googletest
    GIT_REPOSITORY https://github.com/google/googletest.git
    GIT_TAG v1.15.2
    GIT_SHALLOW ON)
  set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
  set(BUILD_GMOCK OFF CACHE BOOL "" FORCE)
  FetchContent_MakeAvailable(googletest)
endfunction()
