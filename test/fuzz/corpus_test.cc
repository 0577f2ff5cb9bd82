// Runs each fuzzer once with every file of its corpus: seeds, and inputs that once broke a
// property.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = MGPU_SOURCE_DIR;

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, fuzzer] : fuzzers()) all.push_back(name);
  return all;
}

// A line of fuzzers.txt, which run.sh reads as well.
struct Entry {
  std::string name;
  std::size_t input_bytes_max = 0;
  std::string dictionary;  // "-": none
  std::string folder;      // of more seeds than its corpus; "-": none
};

std::vector<Entry> entries() {
  std::vector<Entry> all;
  std::ifstream file(kSource / "test/fuzz/fuzzers.txt");
  for (Entry entry;
       file >> entry.name >> entry.input_bytes_max >> entry.dictionary >> entry.folder;) {
    all.push_back(entry);
  }
  return all;
}

std::vector<fs::path> folders_of(const std::string& name) {
  std::vector<fs::path> folders{kSource / "test/fuzz/corpus" / name};
  for (const Entry& entry : entries()) {
    if (entry.name == name && entry.folder != "-") folders.push_back(kSource / entry.folder);
  }
  return folders;
}

std::string contents_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class Corpus : public testing::TestWithParam<std::string> {};

TEST_P(Corpus, BreaksNoProperty) {
  std::size_t files = 0;
  for (const fs::path& folder : folders_of(GetParam())) {
    for (const auto& file : fs::directory_iterator(folder)) {
      ++files;
      try {
        fuzzers().at(GetParam())(contents_of(file.path()));
      } catch (const Violation& violation) {
        ADD_FAILURE() << file.path() << ": " << violation.what();
      }
    }
  }
  EXPECT_GT(files, 0U);
}

INSTANTIATE_TEST_SUITE_P(, Corpus, testing::ValuesIn(names()),
                         [](const auto& name) { return name.param; });

TEST(Fuzzers, AreInTheListOfTheStage) {
  std::vector<std::string> listed;
  for (const Entry& entry : entries()) {
    listed.push_back(entry.name);
    const fs::path dictionary = kSource / "test/fuzz/dictionaries" / (entry.dictionary + ".dict");
    EXPECT_TRUE(entry.dictionary == "-" || fs::exists(dictionary)) << entry.name;
  }
  EXPECT_THAT(listed, testing::UnorderedElementsAreArray(names()));
}

TEST(Expect, ThrowsWhereAPropertyDoesNotHold) {
  EXPECT_THROW(expect(false, "a property"), Violation);
  EXPECT_NO_THROW(expect(true, "a property"));
  EXPECT_THROW(expect_sentence("two\nlines"), Violation);
  EXPECT_THROW(expect_sentence("\xFF"), Violation);
}

TEST(Parts, AreTheInput) {
  const std::string input(1'000, 'x');
  std::string joined;
  const auto parts = in_parts(input);
  for (const std::string_view part : parts) joined += part;
  EXPECT_EQ(joined, input);
  EXPECT_GT(parts.size(), 10U);
}

}  // namespace
}  // namespace mgpu::fuzz
