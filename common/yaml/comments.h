// The comments of a YAML text in another one that has nearly the same lines. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mgpu::yaml {

// `written`, which write_documents() has made of the documents of `original` after changes, with
// the comments and blank lines of `original`: those behind a line that is still there, and those
// between lines. `written` itself if it would be read as something else with them.
std::string with_comments(const std::string& written, std::string_view original);

}  // namespace mgpu::yaml
