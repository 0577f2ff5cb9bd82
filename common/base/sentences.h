// Parts of error sentences. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mgpu {

// `text` from outside as a part of a sentence: without characters that would break its line, but
// with quotes and backslashes as they are.
std::string on_one_line(std::string_view text);

// The word that differs from `typed` in the fewest letters, if those are two at most and a third of
// it; empty if there is none.
std::string nearest_word(std::string_view typed, const std::vector<std::string>& words);

}  // namespace mgpu
