// Credential plugins as shell scripts, with a server that follows a script.
#include "common/kube/config/exec_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "common/base/utc_text.h"
#include "common/kube/curl/curl_transport.h"
#include "common/kube/limits.h"
#include "test/support/api_calls.h"
#include "test/support/curl_world.h"
#include "test/support/manual_executor.h"
#include "test/support/scripted_server.h"

namespace mgpu::kube {
namespace {

using namespace std::chrono_literals;
using test::call_and_wait;
using test::config_for;
using test::CurlWorld;
using test::get_of;
using test::header_of;
using test::Peer;
using test::ScriptedServer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using State = ExecPlugin::State;

class ExecPluginTest : public testing::Test {
 protected:
  ExecPluginTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("exec-plugin-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ExecPluginTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  // Each run of the plugin adds a line to the file "runs", and can read its number from $run.
  ExecConfig plugin(const std::string& script) const {
    std::ofstream(path("plugin")) << "#!/bin/sh\ncd \"$FOLDER\"\necho run >>runs\n"
                                  << "run=$(wc -l <runs)\n"
                                  << script << "\n";
    std::filesystem::permissions(path("plugin"), std::filesystem::perms::owner_all);
    return {.api_version = "client.authentication.k8s.io/v1",
            .command = path("plugin"),
            .variables = {"FOLDER=" + folder_.string()},
            .interactive = ExecConfig::Interactive::kNever};
  }
  // A script that prints this status; it may contain $run.
  static std::string prints(const std::string& status) {
    return "cat <<END\n{\"kind\": \"ExecCredential\", \"apiVersion\": "
           "\"client.authentication.k8s.io/v1\", \"status\": {" +
           status + "}}\nEND";
  }
  static std::string expiring(std::chrono::seconds left) {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    return prints("\"token\": \"token-$run\", \"expirationTimestamp\": \"" + utc_text(now + left) +
                  "\"");
  }
  std::string text(const std::string& name) const {
    std::stringstream all;
    all << std::ifstream(path(name)).rdbuf();
    return all.str();
  }
  long runs() const {
    const std::string lines = text("runs");
    return std::count(lines.begin(), lines.end(), '\n');
  }
  Result<std::unique_ptr<ExecPlugin>> create(ExecConfig exec) {
    Config config = config_for(1);
    config.exec = std::move(exec);
    return ExecPlugin::create(config, executor, [this] { ++changes; });
  }
  std::string error_of(ExecConfig exec) {
    const auto created = create(std::move(exec));
    return created ? "no error" : created.error().message;
  }
  // Waits until a run has ended.
  void await_change() {
    const int before = changes;
    for (int i = 0; i < 60'000 && changes == before; ++i) {
      executor.run_ready();
      std::this_thread::sleep_for(1ms);
    }
    ASSERT_GT(changes, before);
  }

  const std::filesystem::path folder_;
  test::ManualExecutor executor;
  int changes = 0;
};

TEST_F(ExecPluginTest, RunsOnceForACredentialWithoutEnd) {
  const auto created = create(plugin(prints("\"token\": \"token-$run\"")));
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_EQ((*created)->state(), State::kValid);
  EXPECT_EQ((*created)->credential()->token, "token-1");
  executor.advance(24h);
  EXPECT_EQ((*created)->state(), State::kValid);
  EXPECT_EQ(runs(), 1);
}

TEST_F(ExecPluginTest, GetsArgumentsVariablesAndTheInfo) {
  ExecConfig exec = plugin(
      "printf '%s,' \"$@\" \"$PROFILE\" >got; echo \"$KUBERNETES_EXEC_INFO\" "
      ">info; cat >input; " +
      prints("\"token\": \"t\""));
  exec.arguments = {"get token", "$HOME"};
  exec.variables.emplace_back("PROFILE=dev");
  exec.provide_cluster_info = true;
  ASSERT_TRUE(create(exec));
  EXPECT_EQ(text("got"), "get token,$HOME,dev,");
  EXPECT_EQ(text("input"), "") << "without a person there is no input";
  const auto info = nlohmann::json::parse(text("info"));
  EXPECT_EQ(info["spec"]["interactive"], false);
  EXPECT_EQ(info["spec"]["cluster"]["server"], "http://127.0.0.1:1");
}

TEST_F(ExecPluginTest, RunsAgainWhenTheCredentialHasExpired) {
  const auto created = create(plugin(expiring(3600s)));
  ASSERT_TRUE(created) << created.error().message;
  executor.advance(3500s);
  EXPECT_EQ((*created)->state(), State::kValid);
  executor.advance(101s);
  EXPECT_EQ((*created)->state(), State::kRunning);
  EXPECT_EQ((*created)->state(), State::kRunning);
  await_change();
  EXPECT_EQ((*created)->credential()->token, "token-2");
  EXPECT_EQ(runs(), 2);
}

TEST_F(ExecPluginTest, ACredentialThatHasExpiredIsUsedForAWhile) {
  const auto created = create(plugin(expiring(-3600s)));
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_EQ((*created)->state(), State::kValid);
  executor.advance(kExecRetryInterval);
  EXPECT_EQ((*created)->state(), State::kRunning);
  await_change();
}

TEST_F(ExecPluginTest, RunsAgainWhenTheServerRefusesTheCredential) {
  const auto created = create(plugin(prints("\"token\": \"token-$run\"")));
  ASSERT_TRUE(created) << created.error().message;
  const auto first = (*created)->credential();
  EXPECT_FALSE((*created)->replaced(first)) << "it has just been made";
  executor.advance(kExecRetryInterval);
  EXPECT_TRUE((*created)->replaced(first));
  EXPECT_EQ((*created)->state(), State::kRunning);
  await_change();
  EXPECT_EQ((*created)->credential()->token, "token-2");
  EXPECT_TRUE((*created)->replaced(first)) << "there is another one already";
  EXPECT_EQ(runs(), 2);
}

TEST_F(ExecPluginTest, AFailureIsNotRepeatedAtOnce) {
  const auto created =
      create(plugin("[ $run = 2 ] && echo 'log in first' >&2 && exit 7\n" + expiring(60s)));
  ASSERT_TRUE(created) << created.error().message;
  executor.advance(60s);
  EXPECT_EQ((*created)->state(), State::kRunning);
  await_change();
  EXPECT_EQ((*created)->state(), State::kFailed);
  EXPECT_EQ((*created)->failure(),
            "credential plugin \"" + path("plugin") + "\": exit code 7, log in first");
  EXPECT_EQ(runs(), 2);
  executor.advance(kExecRetryInterval);
  EXPECT_EQ((*created)->state(), State::kRunning);
  await_change();
  EXPECT_EQ((*created)->state(), State::kValid);
  EXPECT_EQ((*created)->credential()->token, "token-3");
}

TEST_F(ExecPluginTest, FailuresAreOneSentence) {
  const std::string begin = "credential plugin \"" + path("plugin") + "\": ";
  EXPECT_EQ(error_of(plugin("exit 3")), begin + "exit code 3");
  EXPECT_EQ(error_of(plugin("echo one >&2; echo two >&2; exit 3")), begin + "exit code 3, two");
  EXPECT_EQ(error_of(plugin("kill -9 $$")), begin + "signal 9");
  EXPECT_EQ(error_of(plugin("echo secret")),
            begin + "its output must be one JSON object of the kind ExecCredential");
  EXPECT_EQ(error_of(plugin("yes secret")), begin + "its output has over 1048576 bytes");
  EXPECT_THAT(error_of(plugin(prints("\"clientCertificateData\": \"secret\", "
                                     "\"clientKeyData\": \"secret\""))),
              StartsWith(begin + "client certificate given as text must be a PEM certificate"));
  ExecConfig always = plugin(prints("\"token\": \"t\""));
  always.interactive = ExecConfig::Interactive::kAlways;
  if (::isatty(STDIN_FILENO) != 1) {
    EXPECT_EQ(error_of(always),
              begin + "its interactiveMode is Always, and standard input is not a terminal");
  }
}

TEST_F(ExecPluginTest, AProgramThatCannotBeStartedHasAnInstallHint) {
  ExecConfig missing = plugin("");
  missing.command = "no-such-credential-plugin";
  missing.install_hint = "Install it with\nthe package manager.";
  EXPECT_EQ(error_of(missing),
            "credential plugin \"no-such-credential-plugin\": cannot start "
            "no-such-credential-plugin: No such file or directory; Install it with\\nthe package "
            "manager.");
}

TEST_F(ExecPluginTest, ARunningPluginEndsWithItsOwner) {
  auto created = create(plugin("[ $run = 1 ] || sleep 1000\n" + expiring(60s)));
  ASSERT_TRUE(created) << created.error().message;
  executor.advance(60s);
  EXPECT_EQ((*created)->state(), State::kRunning);
  created->reset();
  executor.run_ready();
  EXPECT_EQ(changes, 0);
}

// --- with a server -------------------------------------------------------------------------------

// A server that accepts one token.
class ExecTransport : public ExecPluginTest {
 protected:
  static ScriptedServer::Script accepting(const std::atomic<int>& token) {
    return [&token](Peer& peer) {
      for (std::string request; !(request = peer.read_request()).empty();) {
        const bool accepted =
            header_of(request, "Authorization") == "Bearer token-" + std::to_string(token.load());
        if (!peer.send(test::answer_text(accepted ? 200 : 401, "{}"))) return;
      }
    };
  }
  Config config_of(const ScriptedServer& server, ExecConfig exec) const {
    Config config = config_for(server.port());
    config.exec = std::move(exec);
    return config;
  }
};

TEST_F(ExecTransport, RequestsHaveTheToken) {
  const std::atomic<int> token = 1;
  const ScriptedServer server(accepting(token));
  CurlWorld world(config_of(server, plugin(prints("\"token\": \"token-$run\""))));
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/a")).status, 200);
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/b")).status, 200);
  EXPECT_EQ(runs(), 1);
}

TEST_F(ExecTransport, ARequestWaitsForANewCredentialAfterTheOldOneHasExpired) {
  const std::atomic<int> token = 2;
  const ScriptedServer server(accepting(token));
  // The first credential counts as expired after kExecRetryInterval.
  CurlWorld world(config_of(server, plugin(expiring(-60s))));
  Response first;
  for (int i = 0; i < 600 && first.status != 200; ++i) {
    first = call_and_wait(world.transport(), get_of("/a"));
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(first.status, 200);
  EXPECT_GE(runs(), 2);
}

// A credential that has just been made is not replaced.
TEST_F(ExecTransport, ARequestIsSentAgainWithANewCredentialAfterARefusal) {
  std::atomic<int> token = 1;
  const ScriptedServer server(accepting(token));
  CurlWorld world(config_of(server, plugin(prints("\"token\": \"token-$run\""))));
  ASSERT_EQ(call_and_wait(world.transport(), get_of("/a")).status, 200);
  token = 2;
  int status = 401;
  for (int i = 0; i < 600 && status == 401; ++i) {
    status = call_and_wait(world.transport(), get_of("/a")).status;
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(status, 200);
  EXPECT_EQ(runs(), 2);
}

TEST_F(ExecTransport, ARefusalThatStaysIsAnswered) {
  const std::atomic<int> token = 1'000;
  const ScriptedServer server(accepting(token));
  CurlWorld world(config_of(server, plugin(prints("\"token\": \"token-$run\""))));
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/a")).status, 401);
}

TEST_F(ExecTransport, APluginThatFailsAtTheStartIsAnError) {
  AsioExecutor asio;
  Config config = config_for(1);
  config.exec = plugin("exit 1");
  const auto created = CurlTransport::create(config, asio);
  ASSERT_FALSE(created);
  EXPECT_THAT(created.error().message, HasSubstr("exit code 1"));
  asio.stop();
}

}  // namespace
}  // namespace mgpu::kube
