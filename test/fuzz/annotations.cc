// Feeds the values of the annotations of pods, and a resource domain, to their readers.
//
// Properties: lists are within their limits and are read as they are written; indices that are
// written are the text that was read; a list of names has as many as the text has commas.
#include <algorithm>
#include <string>
#include <string_view>

#include "common/contract/contract.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

std::size_t entries_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count(text, ',')) + 1;
}

void expect_indices(std::string_view text) {
  const auto cards = parse_card_indices(text);
  if (!cards) return expect_sentence(cards.error().message);
  expect(cards->size() <= kCardsPerNodeMax, "at most 64 indices");
  expect(format_card_indices(*cards) == text, "indices are written as they were read");
}

void expect_counts(std::string_view text) {
  const auto counts = parse_card_counts(text);
  if (!counts) return expect_sentence(counts.error().message);
  expect(counts->size() == entries_of(text), "each entry is a count");
  for (const std::int32_t count : *counts) {
    expect(count >= 0 && count <= static_cast<int>(kCardsPerNodeMax), "a count is 0 to 64");
  }
}

void expect_named_counts(std::string_view text) {
  const auto counts = parse_named_card_counts(text);
  if (!counts) return expect_sentence(counts.error().message);
  expect(counts->size() == entries_of(text), "each entry is a name and a count");
  for (const auto& [name, count] : *counts) {
    expect(!name.empty(), "a container has a name");
    expect(count >= 0 && count <= static_cast<int>(kCardsPerNodeMax), "a count is 0 to 64");
  }
}

void expect_names(std::string_view text) {
  const auto names = parse_names(text);
  if (!names) return expect_sentence(names.error().message);
  expect(names->size() == entries_of(text), "each entry is a name");
  expect(names->size() <= kSelectorEntriesMax, "at most 64 names");
  std::string written;
  for (const std::string& name : *names) {
    expect(!name.empty() && name.size() <= kCardTextMax, "a name has 1 to 96 bytes");
    written += (written.empty() ? "" : ", ") + name;
  }
  const auto again = parse_names(written);
  expect(again && *again == *names, "names are read as they are written");
}

void expect_domain(std::string_view text) {
  const auto contract = Contract::for_domain(text);
  if (!contract) return expect_sentence(contract.error().message);
  expect(contract->domain == text && text.size() <= kResourceDomainMax, "a domain is not changed");
  expect(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == text.npos,
         "a domain is a DNS name");
}

}  // namespace

MGPU_FUZZER(annotations) {
  expect_indices(input);
  expect_counts(input);
  expect_named_counts(input);
  expect_names(input);
  expect_domain(input);
}

}  // namespace mgpu::fuzz
