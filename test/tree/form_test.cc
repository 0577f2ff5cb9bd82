// Form of the sources, banned words and banned calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "test/support/source_file.h"
#include "test/support/source_rules.h"

namespace mgpu::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::string> kFolders = {"common", "extender", "plugin",
                                           "bench",  "test",     "deploy"};

TEST(Tree, KeepsItsForm) {
  for (const std::string& folder : kFolders) {
    for (const SourceFile& file : read_sources(MGPU_SOURCE_DIR, folder, {".h", ".cc"})) {
      EXPECT_THAT(form_complaints(file), IsEmpty());
    }
  }
}

// Only printed.
TEST(Tree, WarnsOfLongFunctions) {
  for (const std::string& folder : kFolders) {
    for (const SourceFile& file : read_sources(MGPU_SOURCE_DIR, folder, {".h", ".cc"})) {
      for (const std::string& warning : length_warnings(file)) {
        std::cout << "warning: " << warning << "\n";
      }
    }
  }
}

TEST(Tree, HasNoBannedWordsOrCalls) {
  for (const std::string& folder : kFolders) {
    for (const SourceFile& file :
         read_sources(MGPU_SOURCE_DIR, folder,
                      {".h", ".cc", ".go", ".sh", ".py", ".md", ".yaml", "CMakeLists.txt"})) {
      EXPECT_THAT(wording_complaints(file), IsEmpty());
    }
  }
}

// --- the rules themselves ------------------------------------------------------------------------

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// A function of `length` lines, including its first and last line.
std::string function_of(int length) {
  return "int f(int a,\n      int b) {\n" + repeated("  a += b;\n", length - 3) + "}\n";
}

TEST(FormRules, RefuseLongLines) {
  EXPECT_THAT(form_complaints({"common/a.cc", "//" + std::string(98, 'x') + "\n"}), IsEmpty());
  EXPECT_THAT(form_complaints({"common/a.cc", "\n//" + std::string(99, 'x') + "\n"}),
              ElementsAre("common/a.cc:2: over 100 columns: run clang-format"));
}

TEST(FormRules, AllowLongRecordedMessagesInTests) {
  const std::string text = "f(R\"(" + std::string(100, 'x') + ")\");\n";
  EXPECT_THAT(form_complaints({"test/common/a_test.cc", text}), IsEmpty());
  EXPECT_THAT(form_complaints({"common/a.cc", text}), ElementsAre(HasSubstr("over 100 columns")));
}

TEST(FormRules, CountCharactersAndNotBytes) {
  EXPECT_THAT(form_complaints({"common/a.cc", "//" + repeated("\xE2\x82\xAC", 98) + "\n"}),
              IsEmpty());
}

TEST(FormRules, RefuseTabsAndBlanksAtTheEnd) {
  EXPECT_THAT(
      form_complaints({"common/a.cc", "int a; \n\tint b;\n"}),
      ElementsAre(HasSubstr("common/a.cc:1: a tab or"), HasSubstr("common/a.cc:2: a tab or")));
  EXPECT_THAT(form_complaints({"common/a.cc", "int a;"}), ElementsAre(HasSubstr("no line end")));
}

TEST(FormRules, WarnOfLongFunctions) {
  EXPECT_THAT(length_warnings({"common/a.cc", function_of(70)}), IsEmpty());
  EXPECT_THAT(length_warnings({"common/a.cc", "int g;\n" + function_of(71)}),
              ElementsAre("common/a.cc:2: a function of 71 lines, over 70: consider to split it"));
}

TEST(FormRules, FindFunctionsWhereverTheyAre) {
  const std::string body = repeated("    x();\n", 80);
  for (const std::string& text : {
           "namespace a {\nnamespace {\nvoid f() {\n" + body + "}\n}\n}\n",
           "class A {\n public:\n  void f() const {\n" + body + "  }\n};\n",
           "A::A(int x)\n    : a(x) {\n" + body + "}\n",
           "TEST(A, B) {\n  if (x) {\n" + body + "  }\n}\n",
           "#define M(x) x\nvoid f() {\n" + body + "}\n",
       }) {
    EXPECT_THAT(length_warnings({"common/a.cc", text}), ElementsAre(HasSubstr("a function of 8")))
        << text.substr(0, 60);
  }
}

TEST(FormRules, LeaveLongTypesTablesAndNamespacesAlone) {
  for (const std::string& text : {
           "struct A {\n" + repeated("  int a;\n", 90) + "};\n",
           "namespace a {\n" + repeated("int a;\n", 90) + "}\n",
           "enum class E {\n" + repeated("  a,\n", 90) + "};\n",
           "constexpr int kTable[] = {\n" + repeated("    1,\n", 90) + "};\n",
           "const char* k = R\"(f() {\n" + repeated("\n", 90) + "})\";\n",
       }) {
    EXPECT_THAT(length_warnings({"common/a.cc", text}), IsEmpty()) << text.substr(0, 40);
  }
}

TEST(FormRules, RefuseClassesOfManyFunctions) {
  const auto with = [](int functions) {
    return "class A final : public B {\n public:\n  explicit A(int x);\n  ~A();\n  struct C {\n    "
           "void f();\n  };\n" +
           repeated("  const std::map<int, C>& f(int x) const MGPU_REQUIRES(m);\n", functions) +
           "\n  std::function<void(int)> g_ MGPU_GUARDED_BY(m);\n  int h_ = f(1);\n};\n";
  };
  EXPECT_THAT(form_complaints({"common/a.cc", with(25)}), IsEmpty());
  EXPECT_THAT(form_complaints({"common/a.cc", with(26)}),
              ElementsAre(HasSubstr("A has 26 functions, over 25")));
  EXPECT_THAT(form_complaints({"test/a.cc", with(26)}), IsEmpty());
}

TEST(FormRules, RequirePragmaOnceInHeaders) {
  EXPECT_THAT(form_complaints({"common/a.h", "// A.\n#pragma once\n"}), IsEmpty());
  EXPECT_THAT(form_complaints({"common/a.h", "// A.\n"}),
              ElementsAre(HasSubstr("no #pragma once")));
}

TEST(WordingRules, RefuseBannedWords) {
  for (const std::string word : {"TO"
                                 "DO",
                                 "FIX"
                                 "ME",
                                 "XX"
                                 "X"}) {
    EXPECT_THAT(wording_complaints({"deploy/demo.sh", "\n# " + word + ": later\n"}),
                ElementsAre("deploy/demo.sh:2: " + word + ": do it, or open an issue"));
    EXPECT_THAT(wording_complaints({"common/a.cc", "int " + word + "_count;\n"}), IsEmpty());
  }
  EXPECT_THAT(wording_complaints({"deploy/demo.sh", "mktemp -d x.XXXXXX\n"}), IsEmpty());
}

TEST(WordingRules, RefuseWordsThatHaveBeenReplaced) {
  const std::string path = "extender/kubectl/a.cc";
  for (const auto& [line, instead] : {std::pair("level_name(level)", "to_string()"),
                                      std::pair("print(harmless(text));", "sanitize_for_terminal"),
                                      std::pair("// Empty where there is none.", "empty if"),
                                      std::pair("// True where it fits.", "true if")}) {
    EXPECT_THAT(wording_complaints({path, line}),
                ElementsAre(AllOf(HasSubstr(path + ":1: "), HasSubstr(instead))))
        << line;
  }
  EXPECT_THAT(wording_complaints({path, "// Says where it is empty, and is harmless.\n"}),
              IsEmpty());
  EXPECT_THAT(wording_complaints({"plugin/a.h", "  // Of the thread.\n"}),
              ElementsAre(HasSubstr("a verb")));
  EXPECT_THAT(wording_complaints({"common/a.h", "// None: there is none.\n"}),
              ElementsAre(HasSubstr("Returns nullopt if")));
  EXPECT_THAT(wording_complaints({"plugin/a.h", "// Offers cards\n// of the node.\n"}), IsEmpty());
}

TEST(WordingRules, RefuseCallsWithABetterReplacement) {
  struct Case {
    std::string code;
    std::string instead;
  };
  const Case cases[] = {
      {"assert(x);", "use MGPU_CHECK"},
      {"int n = std::stoi(text);", "use std::from_chars"},
      {"sprintf(b, f);", "use fmt::format"},
      {"std::this_thread::sleep_for(1s);", "use Executor::after"},
      {"thread.detach();", "join it"},
      {"using namespace std;", "name what is used"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(wording_complaints({"common/a.cc", c.code}),
                ElementsAre(AllOf(HasSubstr("common/a.cc:1: "), HasSubstr(c.instead))))
        << c.code;
    EXPECT_THAT(wording_complaints({"test/common/a_test.cc", c.code}), IsEmpty()) << c.code;
    EXPECT_THAT(wording_complaints({"common/a.cc", "// " + c.code}), IsEmpty()) << c.code;
  }
  EXPECT_THAT(wording_complaints({"common/a.cc", "static_assert(true);"}), IsEmpty());
}

TEST(CodeOnly, KeepsLinesAndCode) {
  EXPECT_EQ(code_only("a // b\nc"), "a     \nc");
  EXPECT_EQ(code_only("a /* b\n */ c"), "a     \n    c");
  EXPECT_EQ(code_only("f(\"x\", 'y', 16'000)"), "f(   ,    , 16'000)");
  EXPECT_EQ(code_only("R\"x(\")\" )x\" b"), "            b");
  EXPECT_EQ(code_only("'\\'' b"), "     b");
  EXPECT_EQ(code_only("\"open"), "     ");
  EXPECT_EQ(code_only("/* open"), "       ");
  EXPECT_EQ(code_only("R\"(open"), "       ");
}

}  // namespace
}  // namespace mgpu::test
