#include "test/support/topology_text.h"

#include <sstream>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace mgpu::test {

CardLinks links_of(std::string_view topology) {
  std::istringstream lines{std::string(topology)};
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("GPU")) continue;
    std::istringstream words(line);
    std::vector<std::string>& row = rows.emplace_back();
    for (std::string word; words >> word;) row.push_back(word);
  }
  CardLinks links(rows.size());
  for (std::size_t a = 0; a < rows.size(); ++a) {
    MGPU_CHECK(rows[a].size() == rows.size() + 1 && rows[a][a + 1] == "X", "a square matrix");
    for (std::size_t b = 0; b < a; ++b) {
      MGPU_CHECK(rows[a][b + 1] == rows[b][a + 1], "a link has one class");
      links.set(a, b, link_of_name(rows[a][b + 1]).value());
    }
  }
  return links;
}

}  // namespace mgpu::test
