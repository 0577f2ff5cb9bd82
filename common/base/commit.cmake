# Writes the source file OUTPUT, which defines mgpu::kBuildCommit, unless it has this content already.
#
#   cmake -D SOURCE=<root of the sources> -D OUTPUT=<file> -D COMMIT=<text> -P commit.cmake
#
# COMMIT is the commit as text. If it is empty, the commit is that of the git repository; in an archive
# that `git archive` has made, it is in commit.txt, before its time; otherwise it is "unknown".
set(commit "${COMMIT}")
if(NOT commit AND EXISTS ${SOURCE}/.git)
  find_program(GIT git)
  if(GIT)
    execute_process(COMMAND ${GIT} describe --always --abbrev=12 --exclude=* --dirty
      WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
if(NOT commit)
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/commit.txt archived LIMIT_COUNT 1)
  if(archived MATCHES "^([0-9a-f]+) [0-9]+$")
    string(SUBSTRING ${CMAKE_MATCH_1} 0 12 commit)
  endif()
endif()
if(NOT commit MATCHES "^[0-9a-z-]+$")
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "common/base/version.h"

namespace mgpu {

const char* const kBuildCommit = "@commit@";

}  // namespace mgpu
]])
