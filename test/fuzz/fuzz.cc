#include "test/fuzz/fuzz.h"

#include <algorithm>
#include <functional>

#include "common/base/text.h"

namespace mgpu::fuzz {
namespace {

// A sentence quotes a few values, each cut to kQuotedValueMax bytes, or shorter than a domain.
constexpr std::size_t kSentenceBytesMax = 2'000;
constexpr std::size_t kPartBytesMax = 64;

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_at(text, 0);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

void expect_sentence(std::string_view message) {
  const std::string shown(message);
  expect(!message.empty(), "an error has a sentence");
  expect(message.size() <= kSentenceBytesMax, "a sentence is short: " + shown);
  expect(is_utf8(message), "a sentence is UTF-8: " + shown);
  const bool plain = std::ranges::none_of(
      message, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  expect(plain, "a sentence has no control characters: " + shown);
}

std::vector<std::string_view> in_parts(std::string_view input) {
  std::vector<std::string_view> parts;
  // A linear congruential generator, whose state begins with the hash of the input.
  std::uint64_t state = std::hash<std::string_view>()(input);
  while (!input.empty()) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::size_t size = 1 + static_cast<std::size_t>(state >> 40) % kPartBytesMax;
    parts.push_back(input.substr(0, size));
    input.remove_prefix(std::min(size, input.size()));
  }
  return parts;
}

std::map<std::string, Fuzzer>& fuzzers() {
  static std::map<std::string, Fuzzer> all;
  return all;
}

}  // namespace mgpu::fuzz
