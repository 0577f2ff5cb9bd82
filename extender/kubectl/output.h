// The formats that the commands print in.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "extender/kubectl/console.h"
#include "extender/kubectl/table.h"

namespace mgpu::kubectl {

// Members are written in the order in which they are set.
using Json = nlohmann::ordered_json;

// The result of a command, in every format.
struct View {
  Table table;
  Json json;                         // also for YAML
  std::vector<std::string> names{};  // "node/gpu-1", one for each row
  std::string empty{};               // the sentence for a table without rows
};

inline const std::vector<std::string> kViewFormats = {"table", "wide", "json", "yaml", "name"};

struct ViewFlags {
  std::string output = kViewFormats.front();
  std::string sort_by{};
  bool no_headers = false;

  bool is_table() const { return output == "table" || output == "wide"; }
};
// -o, --sort-by and --no-headers.
void add_view_flags(Options& options, ViewFlags& flags,
                    const std::vector<std::string>& formats = kViewFormats);

// Prints it. The sentence about an empty table is printed to standard error, as kubectl does.
// Errors: the table has no such column to sort by.
Result<void> show(View view, const ViewFlags& flags, Console& console);

// ASCII, with a newline at the end: every character that may change how text is shown is escaped.
std::string json_text(const Json& json);
std::string yaml_text(const Json& json);
// In the format "json" or "yaml", or else `text`.
void print_as(const std::string& format, const Json& json, const std::string& text,
              Console& console);

// "kubectl mgpu: <sentence>" to standard error. Returns kFoundOrFailed.
int fail(Console& console, const std::string& sentence);
// The first kProblemsShownMax sentences, and how many more there are. Returns kSucceeded if there
// are none.
int fail(Console& console, const std::vector<std::string>& sentences);

}  // namespace mgpu::kubectl
