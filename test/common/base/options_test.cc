#include "common/base/options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "common/base/version.h"

namespace mgpu {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// The flags of a program and their values.
struct Program {
  std::string node = "n1";
  std::string policy = "binpack";
  std::int64_t port = 8080;
  Duration timeout = 2s;
  bool serve = false;
  std::vector<std::string> labels;
  std::string pods = "all";
  Options options{"prog", "does things.", "PROG_TEST"};

  Program() {
    options.add_text("node", "the node", node);
    options.add_choice("policy", "which way", policy, {"binpack", "spread"});
    options.add_number("port", "where to listen", port, 1, 65535);
    options.add_duration("bind-timeout", "how long to wait", timeout, 100ms, 5min);
    options.add_flag("serve", "stay up", serve);
    options.add_texts("label", "what to add", labels);
  }

  ParsedOptions parse(std::vector<const char*> words) {
    words.insert(words.begin(), "prog");
    return options.parse(static_cast<int>(words.size()), words.data());
  }
};

class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);
  }
  ~EnvironmentVariable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

void expect_refused(const ParsedOptions& parsed, const std::string& sentence) {
  EXPECT_FALSE(parsed.run);
  EXPECT_EQ(parsed.exit_code, 2);
  EXPECT_EQ(parsed.print, "prog: " + sentence + "; see --help\n");
}

TEST(Options, KeepTheirDefaults) {
  Program program;
  const ParsedOptions parsed = program.parse({});
  EXPECT_TRUE(parsed.run);
  EXPECT_EQ(parsed.exit_code, 0);
  EXPECT_EQ(parsed.print, "");
  EXPECT_EQ(program.port, 8080);
  EXPECT_EQ(program.timeout, 2s);
  EXPECT_EQ(program.node, "n1");
  EXPECT_FALSE(program.serve);
  EXPECT_THAT(program.labels, IsEmpty());
}

TEST(Options, ComeFromTheCommandLine) {
  Program program;
  EXPECT_TRUE(program
                  .parse({"--node", "a b", "--policy=spread", "--port", "1", "--bind-timeout=500ms",
                          "--serve", "--label", "x", "--label=y,z"})
                  .run);
  EXPECT_EQ(program.node, "a b");
  EXPECT_EQ(program.policy, "spread");
  EXPECT_EQ(program.port, 1);
  EXPECT_EQ(program.timeout, 500ms);
  EXPECT_TRUE(program.serve);
  EXPECT_THAT(program.labels, ElementsAre("x", "y,z"));
}

TEST(Options, TheLastOfTwoIsUsed) {
  Program program;
  EXPECT_TRUE(program.parse({"--port", "1", "--serve", "--port", "2", "--serve=false"}).run);
  EXPECT_EQ(program.port, 2);
  EXPECT_FALSE(program.serve);
}

TEST(Options, ARemovedFlagSaysWhatToDoInstead) {
  Program program;
  program.options.add_removed("old-port", "use --port");
  for (const std::vector<const char*>& words :
       {std::vector{"--old-port", "1"}, {"--old-port=1"}, {"--node", "x", "--old-port"}}) {
    expect_refused(program.parse(words), "--old-port was removed: use --port");
  }
  EXPECT_TRUE(program.parse({"--port", "1"}).run);
  EXPECT_THAT(program.parse({"--help"}).print, Not(HasSubstr("old-port")));
  const EnvironmentVariable variable("PROG_TEST_OLD_PORT", "1");
  expect_refused(program.parse({}), "--old-port was removed: use --port");
}

TEST(Options, TextMayBeEmptyOrHaveAnyCharacters) {
  Program program;
  EXPECT_TRUE(program.parse({"--node=", "--port", "9"}).run);
  EXPECT_EQ(program.node, "");
  EXPECT_EQ(program.port, 9);
  EXPECT_TRUE(program.parse({"--node", "x", "--node", ""}).run);
  EXPECT_EQ(program.node, "");
  for (const char* text : {"--node=[a,b]", "--node=--x", "--node={}", "--node='q'"}) {
    EXPECT_TRUE(program.parse({text}).run) << text;
    EXPECT_EQ(program.node, std::string(text).substr(7));
  }
}

TEST(Options, ComeFromTheEnvironment) {
  const EnvironmentVariable port("PROG_TEST_PORT", "99");
  const EnvironmentVariable timeout("PROG_TEST_BIND_TIMEOUT", "3s");
  const EnvironmentVariable serve("PROG_TEST_SERVE", "true");
  const EnvironmentVariable label("PROG_TEST_LABEL", "x");
  Program program;
  EXPECT_TRUE(program.parse({}).run);
  EXPECT_EQ(program.port, 99);
  EXPECT_EQ(program.timeout, 3s);
  EXPECT_TRUE(program.serve);
  EXPECT_THAT(program.labels, ElementsAre("x"));
}

TEST(Options, TheCommandLineHasPrecedenceOverTheEnvironment) {
  const EnvironmentVariable port("PROG_TEST_PORT", "nonsense");
  Program program;
  EXPECT_TRUE(program.parse({"--port", "7"}).run);
  EXPECT_EQ(program.port, 7);
}

TEST(Options, AnEmptyVariableCountsAsUnset) {
  const EnvironmentVariable port("PROG_TEST_PORT", "");
  Program program;
  EXPECT_TRUE(program.parse({}).run);
  EXPECT_EQ(program.port, 8080);
}

TEST(Options, ABadVariableIsRefusedByItsName) {
  const EnvironmentVariable port("PROG_TEST_PORT", "0");
  expect_refused(Program().parse({}),
                 "PROG_TEST_PORT must be a whole number from 1 to 65535, found \"0\"");
}

TEST(Options, WithoutAPrefixIgnoreTheEnvironment) {
  const EnvironmentVariable port("_PORT", "9");
  std::int64_t target = 5;
  Options options("prog", "", "");
  options.add_number("port", "", target, 1, 10);
  const char* const words[] = {"prog"};
  EXPECT_TRUE(options.parse(1, words).run);
  EXPECT_EQ(target, 5);
}

TEST(Options, ErrorsAreOneSentence) {
  struct Case {
    std::vector<const char*> words;
    std::string sentence;
  };
  const Case cases[] = {
      {{"--other"}, "unknown flag \"--other\""},
      {{"--prot=1"}, "unknown flag \"--prot=1\"; did you mean \"--port\"?"},
      {{"--port", "1", "--nope", "2"}, "unknown flag \"--nope\"; did you mean \"--node\"?"},
      {{"-x"}, "unknown flag \"-x\""},
      {{"stray"}, "unexpected argument \"stray\""},
      {{"--label", "a", "b"}, "unexpected argument \"b\""},
      {{"--serve="}, "unexpected argument \"\""},
      {{"--serve", "yes"}, "unexpected argument \"yes\""},
      {{"--port"}, "--port needs a value"},
      {{"--label"}, "--label needs a value"},
      {{"--port", "0"}, "--port must be a whole number from 1 to 65535, found \"0\""},
      {{"--port="}, "--port must be a whole number from 1 to 65535, found \"\""},
      {{"--port", "80a"}, "--port must be a whole number from 1 to 65535, found \"80a\""},
      {{"--policy", "best"}, "--policy must be binpack or spread, found \"best\""},
      {{"--serve=maybe"}, "--serve must be true or false, found \"maybe\""},
      {{"--bind-timeout", "5"}, "--bind-timeout must be a time from 100ms to 5m, found \"5\""},
  };
  for (const Case& c : cases) expect_refused(Program().parse(c.words), c.sentence);
}

TEST(Options, ErrorsDoNotHideTheHelp) {
  const EnvironmentVariable port("PROG_TEST_PORT", "nonsense");
  for (const char* const wanted : {"--help", "-h", "--version"}) {
    for (const std::vector<const char*>& words :
         {std::vector<const char*>{wanted}, {"--policy", "best", wanted}, {"--nope", wanted}}) {
      EXPECT_EQ(Program().parse(words).exit_code, 0) << wanted;
    }
  }
}

TEST(Options, OnlyTheLastOfSeveralIsValidated) {
  Program program;
  EXPECT_TRUE(program.parse({"--port", "80a", "--port", "2"}).run);
  EXPECT_EQ(program.port, 2);
}

TEST(Options, AFailedCheckIsRefused) {
  Program program;
  program.options.check([&]() -> Result<void> {
    if (program.port == 13) return error("--port must not be 13");
    return {};
  });
  EXPECT_TRUE(program.parse({"--port", "12"}).run);
  expect_refused(program.parse({"--port", "13"}), "--port must not be 13");
}

TEST(Options, HelpShowsEveryFlag) {
  const ParsedOptions parsed = Program().parse({"--help", "--nope"});
  EXPECT_FALSE(parsed.run);
  EXPECT_EQ(parsed.exit_code, 0);
  EXPECT_EQ(parsed.print,
            "prog: does things.\n"
            "\n"
            "Usage: prog [FLAGS]\n"
            "\n"
            "Flags:\n"
            "  --node TEXT  (default n1; env PROG_TEST_NODE)\n"
            "      the node\n"
            "  --policy CHOICE  (binpack or spread; default binpack; env PROG_TEST_POLICY)\n"
            "      which way\n"
            "  --port NUMBER  (1 to 65535; default 8080; env PROG_TEST_PORT)\n"
            "      where to listen\n"
            "  --bind-timeout TIME  (100ms to 5m; default 2s; env PROG_TEST_BIND_TIMEOUT)\n"
            "      how long to wait\n"
            "  --serve  (default false; env PROG_TEST_SERVE)\n"
            "      stay up\n"
            "  --label TEXT  (may be repeated; default none; env PROG_TEST_LABEL)\n"
            "      what to add\n"
            "  -h,--help\n"
            "      Print this help and exit.\n"
            "  --version\n"
            "      Print the version and exit.\n");
}

TEST(Options, MayHaveAShortForm) {
  std::string name_space = "default";
  const EnvironmentVariable variable("PROG_TEST_NAMESPACE", "from-environment");
  Options options{"prog", "does things.", "PROG_TEST"};
  options.add_text("n,namespace", "where", name_space);
  const auto parse = [&](std::vector<const char*> words) {
    words.insert(words.begin(), "prog");
    return options.parse(static_cast<int>(words.size()), words.data());
  };
  EXPECT_TRUE(parse({}).run);
  EXPECT_EQ(name_space, "from-environment");
  EXPECT_TRUE(parse({"-n", "a"}).run);
  EXPECT_EQ(name_space, "a");
  EXPECT_TRUE(parse({"--namespace=b"}).run);
  EXPECT_EQ(name_space, "b");
  expect_refused(parse({"-n"}), "--namespace needs a value");
  EXPECT_THAT(parse({"--help"}).print, HasSubstr("\n  -n,--namespace TEXT  (default"));
}

TEST(Options, VersionIsThatOfTheBuild) {
  const ParsedOptions parsed = Program().parse({"--version"});
  EXPECT_FALSE(parsed.run);
  EXPECT_EQ(parsed.exit_code, 0);
  EXPECT_EQ(parsed.print, version_text() + "\n");
  EXPECT_THAT(version_text(),
              StartsWith(fmt::format("mgpu {} (commit {}, ", MGPU_VERSION, kBuildCommit)));
}

TEST(Options, AFlagIsAddedOnce) {
  Program program;
  std::string target;
  EXPECT_DEATH(program.options.add_text("port", "", target), "added twice");
}

// --- commands ------------------------------------------------------------------------------------

struct ProgramWithCommands : Program {
  std::int64_t speed = 1;
  std::string file = "f";

  ProgramWithCommands() {
    Options& demo = options.add_command("demo", "shows it.", {"prog demo --speed 2"});
    demo.add_number("speed", "how fast", speed, 1, 9);
    Options& load = options.add_command("load", "reads it.");
    load.add_text("file", "what to read", file);
    load.check([this]() -> Result<void> {
      if (file == "bad") return error("--file must not be bad");
      return {};
    });
  }
};

TEST(Commands, TakeTheirFlagsAndTheParents) {
  ProgramWithCommands program;
  EXPECT_TRUE(program.parse({"--node", "a", "demo", "--speed", "3", "--port", "5"}).run);
  EXPECT_EQ(program.options.command(), "demo");
  EXPECT_EQ(program.node, "a");
  EXPECT_EQ(program.speed, 3);
  EXPECT_EQ(program.port, 5);
}

TEST(Commands, ShareTheEnvironmentPrefix) {
  const EnvironmentVariable speed("PROG_TEST_SPEED", "4");
  ProgramWithCommands program;
  EXPECT_TRUE(program.parse({"demo"}).run);
  EXPECT_EQ(program.speed, 4);
}

TEST(Commands, OfOthersAreNotReadOrChecked) {
  const EnvironmentVariable file("PROG_TEST_FILE", "bad");
  ProgramWithCommands program;
  EXPECT_TRUE(program.parse({"demo"}).run);
  EXPECT_EQ(program.file, "f");
  expect_refused(program.parse({"load"}), "--file must not be bad");
}

TEST(Commands, AreNeededAndKnown) {
  expect_refused(ProgramWithCommands().parse({}), "a command is needed: demo or load");
  expect_refused(ProgramWithCommands().parse({"--port", "5"}), "a command is needed: demo or load");
  expect_refused(ProgramWithCommands().parse({"show"}), "unknown command \"show\"");
  expect_refused(ProgramWithCommands().parse({"demo", "x"}), "unexpected argument \"x\"");
  expect_refused(ProgramWithCommands().parse({"demo", "--file", "x"}), "unknown flag \"--file\"");
  const std::string meant = "unknown command \"lod\"; did you mean \"load\"?";
  expect_refused(ProgramWithCommands().parse({"lod"}), meant);
  expect_refused(ProgramWithCommands().parse({"help", "lod"}), meant);
  expect_refused(ProgramWithCommands().parse({"demo", "--speed", "99"}),
                 "--speed must be a whole number from 1 to 9, found \"99\"");
}

TEST(Commands, AreListedInTheHelp) {
  const std::string help = ProgramWithCommands().parse({"--help"}).print;
  EXPECT_THAT(help,
              AllOf(StartsWith("prog: does things."), HasSubstr("Usage: prog COMMAND [FLAGS]\n"),
                    HasSubstr("Commands:\n  demo\n      shows it.\n  load\n"),
                    HasSubstr("--node TEXT"), Not(HasSubstr("--speed"))));
}

TEST(Commands, HaveHelpOfTheirOwn) {
  const ParsedOptions parsed = ProgramWithCommands().parse({"demo", "--help"});
  EXPECT_EQ(parsed.exit_code, 0);
  EXPECT_THAT(parsed.print,
              AllOf(StartsWith("prog demo: shows it."), HasSubstr("Usage: prog demo [FLAGS]\n"),
                    HasSubstr("--speed"), HasSubstr("--node TEXT"), Not(HasSubstr("--file"))));
  EXPECT_EQ(ProgramWithCommands().parse({"demo", "--version"}).print, version_text() + "\n");
  EXPECT_EQ(ProgramWithCommands().parse({"help", "demo"}).print, parsed.print);
  EXPECT_EQ(ProgramWithCommands().parse({"help"}).print,
            ProgramWithCommands().parse({"--help"}).print);
  EXPECT_THAT(parsed.print, HasSubstr("\n\nExamples:\n  prog demo --speed 2\n\nFlags:\n"));
}

TEST(Commands, ShowFlagsOfTheConnectionApart) {
  Options options("prog", "does things.", "");
  std::string node;
  std::string url;
  Options& show = options.add_command("show", "shows it.");
  show.add_text("url", "where it is", url);
  show.add_text("node", "which one", node);
  show.show_as_connection({"url", "other"});
  const char* const words[] = {"prog", "show", "-h"};
  EXPECT_THAT(
      options.parse(3, words).print,
      AllOf(HasSubstr("Flags:\n  --node TEXT"),
            EndsWith("\n\nConnection:\n  --url TEXT  (default none)\n      where it is\n")));
}

TEST(Options, AnyWordsAreAcceptedOrRefused) {
  const std::vector<const char*> vocabulary = {
      "demo",     "load",    "--",       "-",  "",   "---",        "--port",
      "--port=1", "--serve", "--serve=", "=",  "[",  "--=x",       "-p",
      "--label",  "x y",     "\xFF",     "++", "%%", "demo.speed", "--demo.speed=2",
      "{}"};
  std::mt19937 engine(9);
  for (int round = 0; round < 3000; ++round) {
    std::vector<const char*> words(engine() % 6);
    for (const char*& word : words) word = vocabulary[engine() % vocabulary.size()];
    ProgramWithCommands program;
    const ParsedOptions parsed = program.parse(words);
    if (parsed.run) continue;
    EXPECT_EQ(parsed.exit_code, 2);
    EXPECT_EQ(std::count(parsed.print.begin(), parsed.print.end(), '\n'), 1) << parsed.print;
  }
}

}  // namespace
}  // namespace mgpu
