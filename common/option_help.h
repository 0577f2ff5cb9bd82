// How the help of a program looks (common/options.h). Pure; any thread.
#pragma once

#include <string>

namespace mgpu {

struct FlagText {
  std::string name;
  std::string kind;  // "NUMBER"; empty for a switch
  std::string help;
  std::string range;  // "1 to 128"; may be empty
  std::string default_text;
  std::string environment;  // the variable; empty: none
};

//   --bind-concurrency NUMBER  (1 to 1024; default 128; env MGPU_EXTENDER_BIND_CONCURRENCY)
//       binds sent to the API server at once
std::string flag_help(const FlagText& flag);

// `text` in indented lines of at most 100 columns, broken at blanks; ends with a line end.
std::string wrap_text(const std::string& text, const std::string& indent);

}  // namespace mgpu
