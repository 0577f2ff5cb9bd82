// What the fuzzers share. A fuzzer is a function that feeds bytes to a parser and checks a property
// of the result:
//
//   MGPU_FUZZER(quantity) { ...; expect(again == first, "a quantity reads as it was written"); }
//
// With the preset `fuzz` each fuzzer is a program of libFuzzer. In all builds fuzz_test runs each
// of them once with every file of its corpus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mgpu::fuzz {

// A property does not hold. It ends a program of libFuzzer, and fails a test.
class Violation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline void expect(bool holds, const std::string& property) {
  if (!holds) throw Violation(property);
}

// Expects that `message` can be shown and logged: it is not empty, is UTF-8 without
// control characters, and does not repeat a long text from outside.
void expect_sentence(std::string_view message);

// Parts of `input`, which together are `input`. They depend on `input` only, so that a run can be
// repeated.
std::vector<std::string_view> in_parts(std::string_view input);

using Fuzzer = void (*)(std::string_view input);

// The fuzzers of this program, by name.
std::map<std::string, Fuzzer>& fuzzers();

inline bool add_fuzzer(const char* name, Fuzzer fuzzer) {
  return fuzzers().emplace(name, fuzzer).second;
}

}  // namespace mgpu::fuzz

#define MGPU_FUZZER(name)                                                                        \
  static void fuzz_##name(std::string_view input);                                               \
  [[maybe_unused]] static const bool has_##name = ::mgpu::fuzz::add_fuzzer(#name, &fuzz_##name); \
  static void fuzz_##name(std::string_view input)
