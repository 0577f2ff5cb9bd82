#include "common/base/sentences.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/text.h"

namespace mgpu {

std::string on_one_line(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t end = std::min(text.find_first_of("\"\\"), text.size());
    out += json_escaped(text.substr(0, end));
    if (end == text.size()) return out;
    out += text[end];
    text.remove_prefix(end + 1);
  }
}

std::string nearest_word(std::string_view typed, const std::vector<std::string>& words) {
  constexpr std::size_t kTypedMax = 40;
  std::string nearest;
  // Two letters of a word of six may be wrong.
  std::size_t least = std::min<std::size_t>(typed.size() / 3, 2) + 1;
  if (typed.size() > kTypedMax) return nearest;
  for (const std::string& word : words) {
    // The changes of a letter that make the beginning of `typed` one of `word`, row by row.
    std::vector<std::size_t> row(word.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < typed.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < word.size(); ++j) {
        const std::size_t same = diagonal + (typed[i] == word[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({same, diagonal + 1, row[j] + 1});
      }
    }
    if (row.back() >= least) continue;
    least = row.back();
    nearest = word;
  }
  return nearest;
}

}  // namespace mgpu
