// Structured log: a constant message and key=value fields, one line each, on standard error.
// Home of spdlog. Not for pure folders. Any thread.
//
//   log_info("pod bound", {{"pod", to_string(ref)}, {"node", node.str()}});
//   2026-11-21T08:00:00.123Z info "pod bound" pod=default/a node=n1
//
// Values with blanks, quotes or control characters are quoted and escaped, and cut at 1 KiB.
// Tokens, keys and request bodies are never fields.
#pragma once

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

// "debug", "info", "warn", "error" or "off". Errors: any other.
Result<void> set_log_level(std::string_view level);
// "text" (above) or "json", one object a line. Errors: any other.
Result<void> set_log_format(std::string_view format);

}  // namespace mgpu
