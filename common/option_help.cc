#include "common/option_help.h"

#include <algorithm>
#include <cstddef>

namespace mgpu {
namespace {

constexpr std::size_t kColumns = 100;

}  // namespace

std::string flag_help(const FlagText& flag) {
  std::string title = "  --" + flag.name + (flag.kind.empty() ? "" : " " + flag.kind);
  title += "  (" + (flag.range.empty() ? "" : flag.range + "; ") + "default " + flag.default_text;
  if (!flag.environment.empty()) title += "; env " + flag.environment;
  return title + ")\n" + wrap_text(flag.help, "      ");
}

std::string wrap_text(const std::string& text, const std::string& indent) {
  std::string out = indent;
  std::size_t column = indent.size();
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    const bool first = column == indent.size();
    if (!first && column + 1 + (end - start) > kColumns) {
      out += "\n" + indent;
      column = indent.size();
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out.append(text, start, end - start);
    column += end - start;
    start = end + 1;
  }
  return out + "\n";
}

}  // namespace mgpu
