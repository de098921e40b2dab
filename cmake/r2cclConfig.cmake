# r2ccl::r2ccl is the library under its own name, r2ccl::nccl the same as libnccl.so.2, where the drop-in is installed.
include(${CMAKE_CURRENT_LIST_DIR}/r2cclTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/r2cclDropIn.cmake OPTIONAL)
