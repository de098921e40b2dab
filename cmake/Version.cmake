# The version has one place, the file VERSION. include/r2ccl.h repeats it, because programs also compile against that header as it lies in
# this tree; a header that says something else does not build.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../VERSION R2CCL_VERSION LIMIT_COUNT 1)
set(in_header "")
foreach(part MAJOR MINOR PATCH)
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../include/r2ccl.h line REGEX "^#define R2CCL_VERSION_${part} [0-9]+$")
  string(REGEX REPLACE ".* " "" number "${line}")
  list(APPEND in_header "${number}")
endforeach()
list(JOIN in_header "." in_header)
if(NOT in_header STREQUAL R2CCL_VERSION)
  message(FATAL_ERROR "include/r2ccl.h says version ${in_header} and VERSION says ${R2CCL_VERSION}: change R2CCL_VERSION_… there")
endif()
