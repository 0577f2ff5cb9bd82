#include "extender/inspect/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/text.h"

namespace mgpu::extender {

Result<std::size_t> read_count(const std::string& query, const std::string& name,
                               std::size_t otherwise, std::size_t most) {
  const std::string text = http::query_value(query, name);
  if (text.empty()) return otherwise;
  const auto count = parse_number<std::size_t>(text);
  if (count && *count >= 1 && *count <= most) return *count;
  return error(fmt::format("query parameter {} is {}, expected a number from 1 to {}", name,
                           in_quotes(text), most));
}

Result<Page> read_page(const std::string& query, std::size_t limit_default, std::size_t limit_max) {
  const auto limit = read_count(query, "limit", limit_default, limit_max);
  if (!limit) return limit.error();
  return Page{.after = http::query_value(query, "after"), .limit = *limit};
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
  // By default dump() throws if a text of the cluster is not UTF-8.
  return {.body = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
}

Json indices(std::span<const CardIndex> cards) {
  Json out = Json::array();
  for (const CardIndex card : cards) out.push_back(card.value());
  return out;
}

Json placement_json(const GpuRequest& request, const Placement& placement) {
  Json out = Json::array();
  for (std::size_t i = 0; i < placement.cards_of.size(); ++i) {
    out.push_back(
        {{"container", request.containers[i].name}, {"cards", indices(placement.cards_of[i])}});
  }
  return out;
}

}  // namespace mgpu::extender
