// Structured log on standard error: each line has a constant message and key=value fields. The
// home of spdlog; not for pure folders. Thread-safe.
//
//   log_info("pod bound", {{"pod", to_string(ref)}, {"node", node.str()}});
//
//   2026-11-21T08:00:00.123Z info "pod bound" pod=default/a node=n1
//   {"time":"2026-11-21T08:00:00.123Z","level":"info","message":"pod bound","pod":"default/a",...}
//
// In the text format, values with blanks, quotes or control characters are quoted and escaped.
// Values are cut after 1 KiB. Tokens, keys and request bodies are never logged.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace mgpu {

struct Field {
  std::string_view key;
  std::string value;
};
using Fields = std::initializer_list<Field>;

void log_debug(std::string_view message, Fields fields = {});
void log_info(std::string_view message, Fields fields = {});
void log_warn(std::string_view message, Fields fields = {});
void log_error(std::string_view message, Fields fields = {});

// Lets a thread of its own write the lines from now on, so that no other thread waits for a reader
// of standard error: up to kLogLinesMax lines wait, and then the oldest ones are dropped. To be
// called once, by a program before it starts threads that log. Without it, each call writes its
// line.
void write_log_in_background();
// Waits until the lines are written, but for kLogEndTimeout at most. Later lines are written by the
// threads that log them. For the end of a program.
void end_log_in_background();
// The number of lines that were dropped.
std::size_t log_lines_dropped();

// "debug", "info", "warn", "error" or "off"; any other level is an error.
Result<void> set_log_level(std::string_view name);
// "text" or "json"; any other format is an error.
Result<void> set_log_format(std::string_view format);

}  // namespace mgpu
