#include "common/kube/base64.h"

#include <cstdint>

namespace mgpu::kube {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  std::size_t digits = 0;
  std::size_t padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') continue;
    const std::size_t digit = c == '=' ? 0 : kDigits.find(c);
    if (digit == std::string_view::npos || (padding > 0 && c != '=')) return std::nullopt;
    padding += c == '=' ? 1 : 0;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (++digits % 4 != 0) continue;
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(bits >> shift & 0xFF);
  }
  if (digits % 4 != 0 || padding > 2) return std::nullopt;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

std::string encode_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view part = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (k < part.size() ? static_cast<std::uint8_t>(part[k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= part.size() ? kDigits[bits >> (18 - 6 * k) & 0x3F] : '=';
    }
  }
  return text;
}

}  // namespace mgpu::kube
