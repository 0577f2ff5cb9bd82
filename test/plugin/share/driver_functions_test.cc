// The list of the driver's functions, compared with headers of CUDA where the test is given some:
// MGPU_TEST_CUDA_HEADERS names the files cuda.h, separated by colons. They are in the wheels
// nvidia-cuda-runtime, nvidia-cuda-runtime-cu12 and nvidia-cuda-runtime-cu11 of PyPI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace mgpu::share {
namespace {

using testing::IsEmpty;

enum class FunctionKind {
  allocates,
  frees,
  maps,
  imports,
  launches,
  captures,
  asks_memory,
  other,
};

struct DriverFunction {
  const char* name;
  FunctionKind kind;
};

const std::vector<DriverFunction> kFunctions = {
#define DRIVER_FUNCTION(name, kind) {#name, FunctionKind::kind},
#include "plugin/share/driver_functions.def"
#undef DRIVER_FUNCTION
};

// Without the version and the kind of default stream.
std::string base_name(const std::string& name) {
  return std::regex_replace(name, std::regex("(_v[0-9]+)?(_ptsz|_ptds)?$"), "",
                            std::regex_constants::format_first_only);
}

void insert_all(const std::string& text, const std::regex& pattern, std::set<std::string>& names) {
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    for (std::size_t group = 1; group < match->size(); ++group) {
      if ((*match)[group].matched) names.insert((*match)[group].str());
    }
  }
}

// The functions that a header declares, and the names that its macros stand for.
std::set<std::string> declared_in(const std::string& path) {
  std::stringstream file;
  file << std::ifstream(path).rdbuf();
  const std::string text = file.str();
  std::set<std::string> names;
  insert_all(text, std::regex(R"(CUDAAPI\s+(cu[A-Z]\w*)\s*\()"), names);
  insert_all(text, std::regex(R"(#\s*define\s+(cu[A-Z]\w*)\s+(cu[A-Z]\w*)\s*\n)"), names);
  const std::regex per_thread(R"(#\s*define\s+(cu[A-Z]\w*)\s+__CUDA_API_(PTSZ|PTDS)\((\w+)\))");
  for (std::sregex_iterator match(text.begin(), text.end(), per_thread), end; match != end;
       ++match) {
    names.insert((*match)[3].str());
    names.insert((*match)[3].str() + ((*match)[2] == "PTSZ" ? "_ptsz" : "_ptds"));
  }
  return names;
}

TEST(DriverFunctions, AreSortedAndNamedOnce) {
  for (std::size_t i = 1; i < kFunctions.size(); ++i) {
    EXPECT_LT(std::string(kFunctions[i - 1].name), kFunctions[i].name);
  }
}

TEST(DriverFunctions, HaveOneKindInAllVersions) {
  std::map<std::string, FunctionKind> kinds;
  for (const DriverFunction& function : kFunctions) {
    EXPECT_EQ(kinds.emplace(base_name(function.name), function.kind).first->second, function.kind)
        << function.name;
  }
}

TEST(DriverFunctions, AreAllThatTheHeadersDeclare) {
  const char* const headers = std::getenv("MGPU_TEST_CUDA_HEADERS");
  if (headers == nullptr) GTEST_SKIP() << "MGPU_TEST_CUDA_HEADERS names no header";
  std::set<std::string> known;
  for (const DriverFunction& function : kFunctions) known.insert(function.name);
  std::stringstream paths(headers);
  for (std::string path; std::getline(paths, path, ':');) {
    const std::set<std::string> declared = declared_in(path);
    EXPECT_GT(declared.size(), 400U) << path;
    std::vector<std::string> unclassified;
    std::ranges::set_difference(declared, known, std::back_inserter(unclassified));
    EXPECT_THAT(unclassified, IsEmpty()) << path << ": add them to driver_functions.def";
  }
}

}  // namespace
}  // namespace mgpu::share
