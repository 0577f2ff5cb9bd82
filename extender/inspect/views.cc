#include "extender/inspect/views.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/text.h"

namespace mgpu::extender {

Result<Page> read_page(const std::string& query, std::size_t limit_default, std::size_t limit_max) {
  Page page{.after = http::query_value(query, "after"), .limit = limit_default};
  const std::string limit = http::query_value(query, "limit");
  if (limit.empty()) return page;
  const char* end = limit.data() + limit.size();
  const auto [stop, failed] = std::from_chars(limit.data(), end, page.limit);
  if (failed == std::errc() && stop == end && page.limit >= 1 && page.limit <= limit_max) {
    return page;
  }
  return error("query parameter limit is " + in_quotes(limit) + ", expected a number from 1 to " +
               std::to_string(limit_max));
}

PageOfNodes cut_page(std::vector<NodeName> names, const Page& page) {
  std::erase_if(names, [&](const NodeName& name) { return name.str() <= page.after; });
  std::ranges::sort(names);
  PageOfNodes cut;
  if (names.size() > page.limit) {
    names.resize(page.limit);
    cut.next = names.back().str();
  }
  cut.names = std::move(names);
  return cut;
}

http::Response json_response(const Json& json) {
  return {.body = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
}

Json indices(std::span<const CardIndex> cards) {
  Json out = Json::array();
  for (const CardIndex card : cards) out.push_back(card.value());
  return out;
}

std::string_view kind_name(ContainerKind kind) {
  switch (kind) {
    case ContainerKind::kInit:
      return "init";
    case ContainerKind::kSidecar:
      return "sidecar";
    case ContainerKind::kApp:
      return "app";
  }
  return "unknown";
}

}  // namespace mgpu::extender
