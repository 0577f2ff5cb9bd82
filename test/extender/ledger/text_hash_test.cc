#include "extender/ledger/text_hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <string>
#include <vector>

namespace mgpu::extender {
namespace {

constexpr HashSecrets kSecrets{0x0123'4567'89AB'CDEF, 0xFEDC'BA98'7654'3211};

// Texts of every length up to 40 that are equal except for one character, at each position.
std::vector<std::string> similar_texts() {
  std::vector<std::string> texts = {""};
  for (std::size_t length = 1; length <= 40; ++length) {
    texts.emplace_back(length, 'n');
    for (std::size_t at = 0; at < length; ++at) {
      texts.emplace_back(length, 'n');
      texts.back()[at] = '\xE9';
    }
  }
  return texts;
}

// The map compares few texts that differ, because most of those have different hashes.
TEST(TextEqual, TextsAreEqualWhereAllOfTheirCharactersAre) {
  const auto texts = similar_texts();
  const auto copies = texts;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t j = 0; j < texts.size(); ++j)
      ASSERT_EQ(TextEqual()(texts[i], copies[j]), i == j) << texts[i] << ", " << texts[j];
  }
}

TEST(TextHash, SimilarTextsHaveDifferentHashes) {
  const auto texts = similar_texts();
  std::set<std::uint64_t> hashes;
  for (const std::string& text : texts) hashes.insert(TextHash::hash(text, kSecrets));
  EXPECT_EQ(hashes.size(), texts.size());
}

TEST(TextHash, EqualTextsHaveOneHash) {
  for (const std::string& text : similar_texts())
    EXPECT_EQ(TextHash()(text), TextHash()((text + "x").substr(0, text.size())));
}

TEST(TextHash, DependsOnBothSecrets) {
  for (const std::string& text : similar_texts()) {
    const std::uint64_t hash = TextHash::hash(text, kSecrets);
    EXPECT_NE(hash, TextHash::hash(text, {kSecrets.begin + 1, kSecrets.factor}));
    EXPECT_NE(hash, TextHash::hash(text, {kSecrets.begin, kSecrets.factor + 2}));
  }
}

TEST(TextHash, TheSecretsOfEachProcessAreItsOwn) {
  EXPECT_NE(HashSecrets::random().begin, HashSecrets::random().begin);
  EXPECT_NE(HashSecrets::random().factor, HashSecrets::random().factor);
}

// The hash of a text of two words by the step of FxHash, which anybody can compute.
std::uint64_t without_secrets(std::uint64_t first, std::uint64_t second) {
  constexpr std::uint64_t kFactor = 0x517C'C1B7'2722'0A95;
  const std::uint64_t hash = (std::rotl(std::uint64_t{16}, 5) ^ first) * kFactor;
  return (std::rotl(hash, 5) ^ second) * kFactor;
}

TEST(TextHash, TextsThatCollideWithoutSecretsDoNotCollide) {
  constexpr std::uint64_t kFactor = 0x517C'C1B7'2722'0A95;
  std::set<std::uint64_t> hashes;
  std::set<std::uint64_t> colliding;
  for (std::uint64_t first = 0; first < 1'000; ++first) {
    // What follows the first word cancels it.
    const std::uint64_t second = std::rotl((std::rotl(std::uint64_t{16}, 5) ^ first) * kFactor, 5);
    colliding.insert(without_secrets(first, second));
    std::string text(16, '\0');
    std::memcpy(text.data(), &first, sizeof first);
    std::memcpy(text.data() + sizeof first, &second, sizeof second);
    hashes.insert(TextHash::hash(text, kSecrets));
  }
  ASSERT_EQ(colliding.size(), 1U);
  EXPECT_EQ(hashes.size(), 1'000U);
}

}  // namespace
}  // namespace mgpu::extender
