#include "common/yaml/comments.h"

#include <gtest/gtest.h>

#include "common/yaml/limits.h"
#include "common/yaml/read.h"
#include "common/yaml/write.h"

namespace mgpu::yaml {
namespace {

// `text`, after it was read, written and given its comments.
std::string again(const std::string& text) {
  const auto documents = read_documents(text);
  const auto written = write_documents(*documents);
  return with_comments(*written, text);
}

TEST(YamlComments, StayBehindAndBetweenLines) {
  const std::string text =
      "# who owns it\n\n"
      "kind: Pod  # one\n"
      "---\n"
      "# the second\n"
      "spec:\n"
      "  # of the container\n"
      "  containers:  # two\n"
      "    - name: app # three\n"
      "\n"
      "      image: a#b\n"
      "# the end\n";
  EXPECT_EQ(again(text), text);
}

TEST(YamlComments, AreNotWhatTextsHave) {
  const std::string text =
      "a: \"x # no\" # yes\n"
      "b: it's # yes, too\n"
      "c: |\n"
      "  # no\n"
      "\n"
      "  no  # no\n"
      "# yes\n"
      "d: \"\\\" # no\"  # yes\n";
  EXPECT_EQ(again(text), text);
}

TEST(YamlComments, StayWhereOtherLinesChange) {
  const std::string original =
      "limits:\n"
      "  # a half\n"
      "  nvidia.com/gpu: 1  # gone\n"
      "  cpu: 1  # kept\n"
      "# below\n"
      "name: 'x'   # in other quotes\n";
  const std::string written =
      "limits:\n"
      "  cpu: 1\n"
      "  core: \"100\"\n"
      "name: \"x\"\n";
  EXPECT_EQ(with_comments(written, original),
            "limits:\n"
            "  # a half\n"
            "  cpu: 1  # kept\n"
            "  core: \"100\"\n"
            "# below\n"
            "name: \"x\"   # in other quotes\n");
}

TEST(YamlComments, HaveTheIndentOfTheLineBelow) {
  EXPECT_EQ(with_comments("a:\n  - b: 1\n", "a:\n# of b\n- b: 1  # one\n"),
            "a:\n  # of b\n  - b: 1  # one\n");
}

TEST(YamlComments, AreLeftOutWhereTheyWouldChangeAValue) {
  // The second line of the text begins like a comment.
  const std::string original = "a: \"one\n  # two\"\nb: 1  # c\n";
  const auto documents = read_documents(original);
  ASSERT_TRUE(documents) << documents.error().message;
  const std::string written = *write_documents(*documents);
  const auto with = read_documents(with_comments(written, original));
  EXPECT_EQ(*with, *documents);
}

TEST(YamlComments, AreLeftOutWhereTooMuchDiffers) {
  std::string original = "# c\n";
  for (std::size_t i = 0; i <= kLinesComparedMax; ++i)
    original += "gone" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(with_comments("a: 1\n", original + "a: 1\n"), "a: 1\n");
}

}  // namespace
}  // namespace mgpu::yaml
