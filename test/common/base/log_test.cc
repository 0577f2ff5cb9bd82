#include "common/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/base/limits.h"

namespace mgpu {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class Log : public testing::Test {
 protected:
  void TearDown() override {
    ASSERT_TRUE(set_log_level("info").has_value());
    ASSERT_TRUE(set_log_format("text").has_value());
  }

  // What `act` writes to standard error.
  template <class Act>
  std::string written(Act act) {
    testing::internal::CaptureStderr();
    act();
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(Log, TextLinesHaveTimeLevelMessageAndFields) {
  EXPECT_THAT(
      written([] {
        log_info("pod bound", {{"pod", "default/a"}, {"node", "n1"}});
      }),
      MatchesRegex("20..-..-..T..:..:..\\....Z info \"pod bound\" pod=default/a node=n1\n"));
  EXPECT_THAT(written([] { log_warn("x"); }),
              MatchesRegex("20..-..-..T..:..:..\\....Z warn \"x\"\n"));
}

TEST_F(Log, InTheBackgroundLinesKeepTheirOrder) {
  const std::string lines = written([] {
    write_log_in_background();
    for (int i = 0; i < 100; ++i) log_info("line", {{"number", std::to_string(i)}});
    end_log_in_background();
    log_info("after the end");
  });
  std::size_t at = 0;
  for (int i = 0; i < 100; ++i) {
    at = lines.find(" number=" + std::to_string(i) + "\n", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  EXPECT_NE(lines.find("after the end", at), std::string::npos);
}

// Standard error is a pipe that nobody reads.
TEST_F(Log, InTheBackgroundNobodyWaitsForAReader) {
  std::signal(SIGPIPE, SIG_IGN);  // as programs do
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const int before = ::dup(STDERR_FILENO);
  ASSERT_GE(::dup2(pipe[1], STDERR_FILENO), 0);
  write_log_in_background();
  for (int i = 0; i < 10'000; ++i) log_info("line", {{"text", std::string(100, 'x')}});
  const std::size_t dropped = log_lines_dropped();
  end_log_in_background();
  // The write fails once the pipe has no reader, and the rest goes to the pipe as well.
  ::close(pipe[0]);
  write_log_in_background();
  end_log_in_background();
  ::dup2(before, STDERR_FILENO);
  ::close(pipe[1]);
  ::close(before);
  EXPECT_GT(dropped, 10'000 - kLogLinesMax - 1'000);
  EXPECT_LT(dropped, 10'000 - kLogLinesMax);
}

TEST_F(Log, QuotesValuesThatAreNotOneWord) {
  struct Case {
    std::string value;
    std::string shown;
  };
  const Case cases[] = {
      {"word", "word"},
      {"a/b:c,d", "a/b:c,d"},
      {"", "\"\""},
      {"two words", "\"two words\""},
      {"a=b", "\"a=b\""},
      {"say \"no\"", R"("say \"no\"")"},
      {"a\nb", R"("a\nb")"},
      {"c:\\", R"("c:\\")"},
      {"\x1b[31m", R"("\u001b[31m")"},
      {"\xFF", "\"\xEF\xBF\xBD\""},
      {"{}", "{}"},
      {"%v", "%v"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(written([&] {
                  log_info("m", {{"k", c.value}});
                }),
                testing::EndsWith(" info \"m\" k=" + c.shown + "\n"));
  }
}

TEST_F(Log, CutsLongValues) {
  const std::string line = written([] { log_info("m", {{"k", std::string(5000, 'x')}}); });
  EXPECT_THAT(line, HasSubstr(" k=\"" + std::string(1024, 'x') + "...\""));
  EXPECT_LT(line.size(), 1200U);
}

TEST_F(Log, JsonLinesAreOneObjectWhateverTheValues) {
  ASSERT_TRUE(set_log_format("json").has_value());
  const std::string odd("\"\\\n\0\xFF{}%v", 9);
  const auto line = nlohmann::json::parse(written([&] {
    log_error(odd, {{"pod", odd}, {"node", "n1"}});
  }));
  EXPECT_THAT(line["time"].get<std::string>(), MatchesRegex("20..-..-..T..:..:..\\....Z"));
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["message"], std::string("\"\\\n\0\xEF\xBF\xBD{}%v", 11));
  EXPECT_EQ(line["pod"], line["message"]);
  EXPECT_EQ(line["node"], "n1");
}

TEST_F(Log, GoesToStandardErrorOneLineEach) {
  EXPECT_THAT(written([] {
                log_warn("card lost", {{"card", "3"}});
              }),
              MatchesRegex("....-..-..T..:..:......Z warn \"card lost\" card=3\n"));
}

TEST_F(Log, WritesNothingBelowItsLevel) {
  const auto all = [] {
    log_debug("d");
    log_info("i");
    log_warn("w");
    log_error("e");
  };
  struct Case {
    const char* level;
    std::ptrdiff_t lines;
  };
  for (const Case& c :
       {Case{"debug", 4}, Case{"info", 3}, Case{"warn", 2}, Case{"error", 1}, Case{"off", 0}}) {
    ASSERT_TRUE(set_log_level(c.level).has_value());
    const std::string text = written(all);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), c.lines) << c.level;
  }
}

TEST_F(Log, WritesJson) {
  ASSERT_TRUE(set_log_format("json").has_value());
  const std::string text = written([] { log_error("no", {{"why", "a b"}}); });
  EXPECT_EQ(nlohmann::json::parse(text)["why"], "a b");
}

TEST_F(Log, RefusesUnknownLevelsAndFormats) {
  EXPECT_EQ(set_log_level("loud").error().message,
            "log level must be debug, info, warn, error or off, found \"loud\"");
  EXPECT_EQ(set_log_format("xml").error().message,
            "log format must be text or json, found \"xml\"");
}

TEST_F(Log, LinesOfManyThreadsStayWhole) {
  const std::string text = written([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 50; ++i) log_info("whole", {{"k", "v"}});
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  std::size_t lines = 0;
  for (std::size_t end = text.find(" info \"whole\" k=v\n"); end != std::string::npos;
       end = text.find(" info \"whole\" k=v\n", end + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 200U);
}

}  // namespace
}  // namespace mgpu
