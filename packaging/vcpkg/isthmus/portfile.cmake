# A release writes the address of its archive and the archive's hash (packaging/README.md).
vcpkg_download_distfile(
  ARCHIVE
  URLS "https://example.org/isthmus-${VERSION}.tar.gz"
  FILENAME "isthmus-${VERSION}.tar.gz"
  SHA512 0)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")

# libisthmus is a shared library whatever the triplet prefers: a program finds one state of it.
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DISTHMUS_BUILD_PACKAGE=OFF -DISTHMUS_BUILD_TESTS=OFF -DISTHMUS_PYTHON=OFF -DISTHMUS_INSTALL_DLPACK=OFF
          "-DISTHMUS_DLPACK_INCLUDE_DIR=${CURRENT_INSTALLED_DIR}/include")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/isthmus)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
