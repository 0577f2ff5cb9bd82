#include "extender/inspect/page.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/text.h"
#include "common/http/message.h"

namespace mgpu::extender {

Result<Page> read_page(const std::string& query, std::size_t standard, std::size_t most) {
  Page page{.after = http::query_value(query, "after"), .limit = standard};
  const std::string limit = http::query_value(query, "limit");
  if (limit.empty()) return page;
  const char* end = limit.data() + limit.size();
  const auto [stop, failed] = std::from_chars(limit.data(), end, page.limit);
  if (failed == std::errc() && stop == end && page.limit >= 1 && page.limit <= most) return page;
  return error("query parameter limit is " + in_quotes(limit) + ", expected a number from 1 to " +
               std::to_string(most));
}

PageOfNodes cut_page(std::vector<NodeName> all, const Page& page) {
  std::erase_if(all, [&](const NodeName& name) { return name.str() <= page.after; });
  std::ranges::sort(all);
  PageOfNodes cut;
  if (all.size() > page.limit) {
    all.resize(page.limit);
    cut.next = all.back().str();
  }
  cut.names = std::move(all);
  return cut;
}

}  // namespace mgpu::extender
