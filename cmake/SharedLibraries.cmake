# The libraries that programs load: libr2ccl.so, the drop-in libnccl.so.2 and the net plugin. They are loaded into programs that may have
# other versions of what we use, or none of it. So they bring it along, hidden, and need nothing but libc, libm, libstdc++ and libgcc;
# tests/install/shape.py holds them to it. The tool and the tests link the same way, so that there is one.

# ---- What comes from outside and is linked in -----------------------------------------------------------------------------------
# Systems ship fmt as a shared library, and an archive seldom: the compiled part of it is made of its own headers.
find_package(fmt REQUIRED)
add_library(r2ccl_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/static_fmt.cc)
target_include_directories(r2ccl_fmt SYSTEM PUBLIC $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)

find_library(SODIUM_ARCHIVE libsodium.a REQUIRED)
find_path(SODIUM_INCLUDE sodium.h REQUIRED)
add_library(r2ccl_sodium INTERFACE)
target_link_libraries(r2ccl_sodium INTERFACE ${SODIUM_ARCHIVE})
target_include_directories(r2ccl_sodium SYSTEM INTERFACE ${SODIUM_INCLUDE})

# Highway is all headers but for its choice of an instruction set; that is ours (src/device/cpu/kernels.cc).
find_path(HIGHWAY_INCLUDE hwy/highway.h REQUIRED)
add_library(r2ccl_highway INTERFACE)
target_include_directories(r2ccl_highway SYSTEM INTERFACE ${HIGHWAY_INCLUDE})

# ---- r2ccl_shared_library(target): the shared library of one folder of src/ -----------------------------------------------------------
#   FOLDER  its objects are in it, whether anything refers to them or not, and what its row of layers.txt allows as far as it is used;
#           only what EXPORTS lists is visible
#   NAME    of its file
function(r2ccl_shared_library target)
  cmake_parse_arguments(ARG "" "FOLDER;EXPORTS;NAME" "" ${ARGN})
  set(exports ${CMAKE_SOURCE_DIR}/src/${ARG_EXPORTS})
  add_library(${target} SHARED $<TARGET_OBJECTS:r2ccl_${ARG_FOLDER}>)
  target_link_libraries(${target} PRIVATE r2ccl_${ARG_FOLDER})
  target_link_options(${target} PRIVATE LINKER:--version-script=${exports} LINKER:--as-needed)
  if(NOT R2CCL_SANITIZE)  # a sanitizer's symbols come with the program
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${ARG_NAME} LINKER_LANGUAGE CXX LINK_DEPENDS ${exports})
endfunction()
