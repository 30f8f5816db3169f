# Defines isthmus::torch and isthmus::libtorch from the PyTorch that the Python interpreter imports.
# Installed with the package: a build of Isthmus and a user of it find PyTorch in the same way.

function(isthmus_find_torch out_dir out_message)
  set(${out_dir} "" PARENT_SCOPE)
  if(NOT Python_EXECUTABLE)
    set(${out_message} "no Python interpreter was found to ask for it" PARENT_SCOPE)
    return()
  endif()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import os, torch; print(os.path.dirname(torch.__file__))"
    OUTPUT_VARIABLE dir OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_VARIABLE why ERROR_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE failed)
  if(failed)
    string(REGEX REPLACE ".*\n" "" why "${why}")
    set(${out_message} "'import torch' failed in ${Python_EXECUTABLE}: ${why}" PARENT_SCOPE)
  elseif(NOT EXISTS "${dir}/include/ATen/ATen.h")
    set(${out_message} "PyTorch in ${dir} has no C++ headers" PARENT_SCOPE)
  else()
    set(${out_dir} "${dir}" PARENT_SCOPE)
  endif()
endfunction()

# `source` is the folder of torch.cpp. A missing PyTorch is reported and leaves every other target as it is.
function(isthmus_add_torch_target source)
  if(TARGET isthmus::torch)
    return()
  endif()
  if(NOT isthmus_torch_dir)
    isthmus_find_torch(dir message)
    if(NOT dir)
      message(STATUS "isthmus: isthmus::torch is not defined: ${message}")
      return()
    endif()
    # Importing torch takes seconds, so a build folder asks once.
    set(isthmus_torch_dir "${dir}" CACHE PATH "Folder of the installed PyTorch")
    mark_as_advanced(isthmus_torch_dir)
  endif()
  message(STATUS "isthmus: PyTorch in ${isthmus_torch_dir}")
  isthmus_define_library(torch "${source}/torch.cpp")
  # Beside isthmus::backend or isthmus::abi3 it is all that <isthmus/torch.h> needs.
  add_library(isthmus_libtorch INTERFACE)
  add_library(isthmus::libtorch ALIAS isthmus_libtorch)
  target_include_directories(isthmus_libtorch SYSTEM INTERFACE "${isthmus_torch_dir}/include"
                                                               "${isthmus_torch_dir}/include/torch/csrc/api/include")
  target_link_libraries(isthmus_torch PUBLIC isthmus_python isthmus_libtorch)
  foreach(name IN ITEMS c10 torch_cpu torch_python)
    set(library "isthmus_torch_${name}_library")
    find_library(${library} ${name} PATHS "${isthmus_torch_dir}/lib" NO_DEFAULT_PATH REQUIRED)
    mark_as_advanced(${library})
    target_link_libraries(isthmus_libtorch INTERFACE "${${library}}")
  endforeach()
endfunction()
