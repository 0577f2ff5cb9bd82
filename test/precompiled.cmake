# Parsing takes most of the time to compile a source with sanitizers. Therefore headers that many
# sources include are parsed once. The result is stored outside of the tree, so that ccache works
# across checkouts. Release builds do not use it, and so find missing includes.
set(MGPU_PRECOMPILED_INCLUDES
  algorithm chrono filesystem fstream functional map memory mutex optional set string string_view
  thread vector boost/asio.hpp fmt/format.h gmock/gmock.h gtest/gtest.h nlohmann/json.hpp)

separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
set(compile ${CMAKE_CXX_COMPILER} ${flags} -std=c++20 -fsanitize=${MGPU_SANITIZE}
  -fno-omit-frame-pointer -pthread -DFMT_SHARED -DGTEST_HAS_PTHREAD=1)
if(MGPU_SANITIZE MATCHES undefined)
  list(APPEND compile -fno-sanitize=null,alignment)
endif()
list(JOIN MGPU_PRECOMPILED_INCLUDES ">\n#include <" text)
set(text "#include <${text}>\n")

set(cache $ENV{XDG_CACHE_HOME})
if(NOT cache)
  set(cache $ENV{HOME}/.cache)
endif()
string(SHA256 key "${compile} ${CMAKE_CXX_COMPILER_VERSION} ${text}")
string(SUBSTRING ${key} 0 12 key)
set(folder ${cache}/mgpu/precompiled-${key})
set(MGPU_PRECOMPILED ${folder}/precompiled.pch)

# The precompiled header is unusable if a package has been updated since.
file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cc "")
execute_process(
  COMMAND ${compile} -include-pch ${MGPU_PRECOMPILED} -fsyntax-only ${CMAKE_BINARY_DIR}/precompiled.cc
  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
if(failed)
  file(MAKE_DIRECTORY ${folder})
  file(WRITE ${folder}/precompiled.h "${text}")
  # Templates are not instantiated here, because each source needs few of them.
  execute_process(
    COMMAND ${compile} -x c++-header -Xclang -fno-pch-timestamp ${folder}/precompiled.h
            -o ${MGPU_PRECOMPILED}.new
    COMMAND_ERROR_IS_FATAL ANY)
  file(RENAME ${MGPU_PRECOMPILED}.new ${MGPU_PRECOMPILED})
endif()
