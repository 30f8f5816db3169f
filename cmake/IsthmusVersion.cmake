# The numbers that a compiler reads as well are written once, in the headers: the version, and that of the C ABI.
function(isthmus_read_define out header name pattern)
  set(file "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../include/isthmus/${header}")
  file(STRINGS "${file}" line REGEX "^#define ${name} ")
  if(NOT line MATCHES "${pattern}")
    message(FATAL_ERROR "isthmus: no line  #define ${name} ${pattern}  in ${file}")
  endif()
  set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
endfunction()

macro(isthmus_read_version out)
  isthmus_read_define(${out} core/config.h ISTHMUS_VERSION "\"([0-9]+\\.[0-9]+\\.[0-9]+)")
endmacro()
