# cmake -DCOMPILER=… -DINCLUDES=… -DCOMMON=… [-DSOURCE=…] -P check.cmake: the header that the sources have in common, compiled
# ahead, or a source behind it.
set(flags -std=c++20)
foreach(dir IN LISTS INCLUDES)
  list(APPEND flags "-I${dir}")
endforeach()

if(NOT SOURCE)
  file(REMOVE "${COMMON}.gch")
  execute_process(COMMAND "${COMPILER}" ${flags} -x c++-header "${COMMON}" -o "${COMMON}.gch" RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${COMMON} does not compile")
  endif()
  return()
endif()

function(compile out_status out_text)
  execute_process(
    COMMAND "${COMPILER}" ${flags} -fsyntax-only -include "${COMMON}" ${ARGN} "${SOURCE}"
    RESULT_VARIABLE status
    OUTPUT_VARIABLE text
    ERROR_VARIABLE text)
  set(${out_status} "${status}" PARENT_SCOPE)
  set(${out_text} "${text}" PARENT_SCOPE)
endfunction()

file(STRINGS "${SOURCE}" expect REGEX "^// expect: ")
if(NOT expect)
  message(FATAL_ERROR "${SOURCE} has no line  // expect: <regular expression>")
endif()
string(REGEX REPLACE "^// expect: " "" expect "${expect}")

compile(status text)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} must compile as it stands:\n${text}")
endif()
compile(status text -DISTHMUS_MUST_FAIL)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiled with ISTHMUS_MUST_FAIL")
endif()
if(NOT text MATCHES "${expect}")
  message(FATAL_ERROR "${SOURCE} failed for another reason than \"${expect}\":\n${text}")
endif()
