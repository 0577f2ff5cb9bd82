#include "common/http/admission.h"

#include <algorithm>
#include <tuple>

#include "common/base/check.h"
#include "common/http/address.h"
#include "common/http/limits.h"

namespace mgpu::http {

namespace {

bool can_be_closed(const OpenConnection& connection) {
  return connection.waiting && !connection.trusted && !connection.closing;
}

// The connection that is closed first, of all or of one address.
std::optional<std::size_t> first_to_close(const std::vector<OpenConnection>& open,
                                          const std::string* address) {
  std::optional<std::size_t> first;
  const auto order = [&](std::size_t i) { return std::tie(open[i].served, open[i].waiting_since); };
  for (std::size_t i = 0; i < open.size(); ++i) {
    const bool considered = address == nullptr || open[i].address == *address;
    if (!considered || !can_be_closed(open[i])) continue;
    if (!first || order(i) < order(*first)) first = i;
  }
  MGPU_DEBUG_CHECK(!first || can_be_closed(open[*first]), "a connection in use is not closed");
  return first;
}

}  // namespace

Admission admit(const std::string& address, const std::vector<OpenConnection>& open,
                const ConnectionLimits& limits) {
  const auto closing = static_cast<std::size_t>(
      std::ranges::count_if(open, [](const OpenConnection& each) { return each.closing; }));
  const auto of_address =
      static_cast<std::size_t>(std::ranges::count_if(open, [&](const OpenConnection& each) {
        return each.address == address && !each.trusted && !each.closing;
      }));
  constexpr const char* kTooMany = "too_many_connections";
  // Those that are closing still have their file descriptors.
  if (closing >= kHttpClosingMax) return {.refused = kTooMany};
  if (of_address >= limits.per_address && !is_loopback(address)) {
    const auto closes = first_to_close(open, &address);
    if (!closes) return {.refused = "too_many_connections_of_address"};
    return {.closes = closes};
  }
  if (open.size() - closing < limits.total) return {};
  const auto closes = first_to_close(open, nullptr);
  if (!closes) return {.refused = kTooMany};
  return {.closes = closes};
}

}  // namespace mgpu::http
