// Which nodes of many a request is about. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace mgpu::extender {

struct Page {
  std::string after;  // names greater than it
  std::size_t limit = 0;
};

// From the query's `limit` and `after`. Errors: `limit` is not a number within 1 .. `most`.
Result<Page> read_page(const std::string& query, std::size_t standard, std::size_t most);

struct PageOfNodes {
  std::vector<NodeName> names;  // ascending
  std::string next;             // the `after` of the next page; empty on the last
};
PageOfNodes cut_page(std::vector<NodeName> all, const Page& page);

}  // namespace mgpu::extender
