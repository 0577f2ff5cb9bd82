// The protocol between mgpu-set-limits and the plugin, on the socket of LimitServer: one request
// for each connection, and one reply.
//
//   hook:   <allocation> <pid>\n
//   plugin: ok\n, or one sentence why the container must not start
//
// The hook is built without the libraries of the plugin, so that it runs on any node.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mgpu::plugin {

// An allocation has about 30 bytes, and a pid 7.
inline constexpr std::size_t kLimitRequestBytesMax = 256;
inline constexpr std::size_t kLimitReplyBytesMax = 1024;
inline constexpr std::string_view kLimitsSet = "ok\n";
// The time limit of the hook, in milliseconds. One request takes about 5 s at most, but requests
// wait for each other. If the hook gives up, its container does not start; the plugin may still set
// the limits.
inline constexpr int kLimitHookMs = 10'000;
// Between two attempts to reach the plugin.
inline constexpr int kLimitHookRetryMs = 100;
// After this the runtime kills the hook.
inline constexpr int kLimitHookSeconds = 15;

// The first argument of the hook of a container of MPS, before the socket of its daemon.
inline constexpr std::string_view kMpsHookArgument = "--mps";

struct LimitRequest {
  std::string allocation;
  std::int64_t pid = 0;  // of the first process of the container, in the node's pid namespace
  bool operator==(const LimitRequest&) const = default;
};

inline std::string format_limit_request(const LimitRequest& request) {
  return request.allocation + " " + std::to_string(request.pid) + "\n";
}

// Returns nothing unless `text` is exactly one request.
inline std::optional<LimitRequest> parse_limit_request(std::string_view text) {
  if (text.size() > kLimitRequestBytesMax || !text.ends_with('\n')) return std::nullopt;
  text.remove_suffix(1);
  const std::size_t space = text.find(' ');
  if (space == 0 || space == std::string_view::npos) return std::nullopt;
  LimitRequest request{std::string(text.substr(0, space)), 0};
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data() + space + 1, end, request.pid);
  if (failed != std::errc() || rest != end || request.pid <= 0) return std::nullopt;
  return request;
}

}  // namespace mgpu::plugin
