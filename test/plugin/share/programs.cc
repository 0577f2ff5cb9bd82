#include "test/plugin/share/programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <regex>
#include <sstream>

namespace mgpu::share {

Output run(const std::string& command) {
  Output output{-1, ""};
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  char piece[4096];
  while (const std::size_t size = std::fread(piece, 1, sizeof(piece), pipe)) {
    output.text.append(piece, size);
  }
  output.status = pclose(pipe);
  return output;
}

std::vector<std::string> lines_of_symbols(const std::string& library) {
  std::stringstream text(run("readelf -W --dyn-syms " + library).text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

void expect_old_c_library(const std::string& library) {
  std::smatch match;
  int seen = 0;
  for (const std::string& line : lines_of_symbols(library)) {
    if (!std::regex_search(line, match, std::regex(R"(UND\s+(\S+)@([A-Z]+)_([0-9.]+))"))) continue;
    ++seen;
    EXPECT_EQ(match[2], "GLIBC") << line;
    int major = 0;
    int minor = 0;
    ASSERT_GE(std::sscanf(match[3].str().c_str(), "%d.%d", &major, &minor), 2);
    EXPECT_LE(major * 100 + minor, 217) << line;
  }
  EXPECT_GT(seen, 5);
  const std::string headers = run("readelf -Wd " + library).text;
  EXPECT_THAT(headers, testing::HasSubstr("NODELETE"));
  EXPECT_THAT(headers, testing::Not(testing::HasSubstr("libstdc++")));
}

}  // namespace mgpu::share
