// Hash and equality of a text that may be part of another one.
//
// Tenants choose names of pods, and of the nodes of pods without cards. With a hash that they can
// compute, many such names have the same one, and each use of the table compares all of them. So
// this hash depends on two random words of the process.
//
// Texts are read eight characters at a time, of which the last eight overlap the ones before.
// filter searches for thousands of names of nodes, so that these functions are inline and call no
// others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace mgpu::extender {

struct HashSecrets {
  std::uint64_t begin = 0;
  std::uint64_t factor = 0;  // odd

  static HashSecrets random() {
    std::random_device device;
    const auto word = [&] { return std::uint64_t{device()} << 32 | device(); };
    return {word(), word() | 1};
  }
};

inline const HashSecrets kProcessSecrets = HashSecrets::random();

struct TextWords {
  using is_transparent = void;
  static constexpr std::size_t kWord = sizeof(std::uint64_t);

  static std::uint64_t word_at(std::string_view text, std::size_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, kWord);
    return word;
  }
};

struct TextHash : TextWords {
  using is_avalanching = void;  // the map need not mix the result

  std::size_t operator()(std::string_view text) const { return hash(text, kProcessSecrets); }

  static std::uint64_t hash(std::string_view text, const HashSecrets& secrets) {
    std::uint64_t hash = secrets.begin ^ text.size();
    const auto add = [&](std::uint64_t word) { hash = fold(hash ^ word, secrets.factor); };
    if (text.size() < kWord) {
      std::uint64_t word = 0;
      for (const char c : text) word = word << 8 | static_cast<unsigned char>(c);
      add(word);
    } else {
      const std::size_t last = text.size() - kWord;
      for (std::size_t at = 0; at < last; at += kWord) add(word_at(text, at));
      add(word_at(text, last));
    }
    return fold(hash ^ secrets.factor, secrets.begin | 1);
  }

 private:
  __extension__ using Product = unsigned __int128;

  // Both halves of the product, so that each bit depends on all bits of the text.
  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
    const Product product = Product{a} * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
};

struct TextEqual : TextWords {
  bool operator()(std::string_view a, std::string_view b) const {
    if (a.size() != b.size()) return false;
    if (a.size() < kWord) return a == b;
    const std::size_t last = a.size() - kWord;
    for (std::size_t at = 0; at < last; at += kWord)
      if (word_at(a, at) != word_at(b, at)) return false;
    return word_at(a, last) == word_at(b, last);
  }
};

}  // namespace mgpu::extender
