# `cmake --install BUILD --prefix P [--component C]`; the prefix may be moved afterwards.
#
#   runtime      P/lib*/libr2ccl.so.0
#   development  P/include/r2ccl/{nccl,r2ccl}.h, what -lr2ccl and -lnccl find, r2ccl.pc, r2cclConfig.cmake
#   drop-in      P/lib*/r2ccl/libnccl.so.2: a folder that no loader searches, because NVIDIA's is nobody's to replace unasked
#   plugin       P/lib*/libnccl-net-r2ccl.so, where NCCL finds it by name if the loader searches P/lib*
#   tools        P/bin/r2ccl
#
# apps/r2ccl/run/installation.cc knows these places, too.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(libraries ${CMAKE_INSTALL_LIBDIR})
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/r2ccl)
set(package ${libraries}/cmake/r2ccl)

add_custom_target(shipped DEPENDS libr2ccl libnccl nccl_net r2ccl)  # what is installed

install(TARGETS libr2ccl EXPORT r2cclTargets
        LIBRARY DESTINATION ${libraries} COMPONENT runtime NAMELINK_COMPONENT development
        INCLUDES DESTINATION ${headers} ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS libnccl EXPORT r2cclDropIn
        LIBRARY DESTINATION ${libraries}/r2ccl COMPONENT drop-in NAMELINK_COMPONENT development
        INCLUDES DESTINATION ${headers} ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS nccl_net LIBRARY DESTINATION ${libraries} COMPONENT plugin)
install(TARGETS r2ccl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
install(FILES include/nccl.h include/r2ccl.h DESTINATION ${headers} COMPONENT development)

# ---- For those who build against it -------------------------------------------------------------------------------------------
set_target_properties(libr2ccl PROPERTIES EXPORT_NAME r2ccl)
set_target_properties(libnccl PROPERTIES EXPORT_NAME nccl)
# Two exports: the drop-in may be left out.
install(EXPORT r2cclTargets NAMESPACE r2ccl:: DESTINATION ${package} COMPONENT development)
install(EXPORT r2cclDropIn NAMESPACE r2ccl:: DESTINATION ${package} COMPONENT drop-in)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/r2cclConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/r2cclConfig.cmake ${CMAKE_BINARY_DIR}/r2cclConfigVersion.cmake DESTINATION ${package} COMPONENT development)

file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
configure_file(cmake/r2ccl.pc.in r2ccl.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/r2ccl.pc DESTINATION ${libraries}/pkgconfig COMPONENT development)

# ---- For the tool -------------------------------------------------------------------------------------------------------------
file(RELATIVE_PATH libraries_from_tool ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH headers_from_tool ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_INCLUDEDIR}/r2ccl)
set_source_files_properties(apps/r2ccl/run/installation.cc TARGET_DIRECTORY r2ccl_apps PROPERTIES COMPILE_DEFINITIONS
  "R2CCL_LIBRARIES_FROM_TOOL=\"${libraries_from_tool}\";R2CCL_HEADERS_FROM_TOOL=\"${headers_from_tool}\"")
# It finds the same in a build tree.
file(MAKE_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/r2ccl ${CMAKE_BINARY_DIR}/include)
file(CREATE_LINK ../libnccl.so.2 ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/r2ccl/libnccl.so.2 SYMBOLIC)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include/r2ccl SYMBOLIC)
