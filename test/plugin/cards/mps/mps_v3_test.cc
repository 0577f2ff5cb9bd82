// Daemons of the program of a driver from R615 on.
#include "plugin/cards/mps/mps_v3.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "plugin/cards/mps/mps_shares.h"
#include "test/plugin/cards/mps/mps_fixture.h"

namespace mgpu::plugin {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

constexpr char kMade[] =
    "namespace create 0123456789abcdef_aaaa --server=mgpu, namespace set 0123456789abcdef_aaaa "
    "--server=mgpu --active-thread-percentage=30 --pinned-memory-limit=1024M";

class MpsV3Test : public MpsTest {
 protected:
  MpsV3Test() { behave("v3"); }

  static Record record(const std::string& nonce = "aaaa", Percent core = Percent(30)) {
    Record record;
    record.id = AllocationId("0123456789abcdef-" + nonce);
    record.cards = {{CardIndex(0), kCard, {core, MiB(1024)}}};
    return record;
  }
  std::string folder(const std::string& nonce = "aaaa") const {
    return folders().shares + "/0123456789abcdef_" + nonce;
  }
  std::string socket_of_namespace() const {
    return mps_namespace_socket(folders(), "0123456789abcdef_aaaa");
  }
  static ino_t inode(const std::string& path) {
    struct stat found {};
    return ::stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
  }

  // What a program that uses this folder is told: "ok 30.00 1024". `connection` is kept.
  std::string join(const std::string& folder, UniqueFd& connection) const {
    connection = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    const std::string path = folder + "/control";
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    if (::connect(connection.number(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
      return std::strerror(errno);
    char part[64];
    EXPECT_GT(::recv(connection.number(), part, sizeof part, 0), 0);
    const std::string hello = "client 4711\n";
    EXPECT_EQ(::send(connection.number(), hello.data(), hello.size(), MSG_NOSIGNAL),
              std::ssize(hello));
    const ssize_t count = ::recv(connection.number(), part, sizeof part, 0);
    return count > 0 ? std::string(part, static_cast<std::size_t>(count) - 1) : "closed";
  }
};

TEST_F(MpsV3Test, GivesEachContainerTheLimitsOfANamespace) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  ASSERT_TRUE(mps.prepare(record()));
  ASSERT_TRUE(mps.prepare(record("bbbb", Percent(45))));
  const auto edits = mps.edits(record());
  EXPECT_THAT(edits.mounts, ElementsAre(Mount{folder(), "/run/mgpu/mps", true}));
  EXPECT_THAT(edits.environment, Contains(Pair("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30")));
  EXPECT_EQ(inode(folder() + "/control"), inode(socket_of_namespace()));
  UniqueFd first;
  UniqueFd second;
  EXPECT_EQ(join(folder(), first), "ok 30.00 1024");
  EXPECT_EQ(join(folder("bbbb"), second), "ok 45.00 1024");
  EXPECT_THAT(calls(), StartsWith("start v3, server create mgpu --allowed-devices=GPU-a, "));
  mps.stop();
  EXPECT_THAT(calls(), EndsWith("quit"));
}

TEST_F(MpsV3Test, MakesANewNamespaceForAContainerThatStartsAgain) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  ASSERT_TRUE(mps.prepare(record()));
  UniqueFd left;
  ASSERT_EQ(join(folder(), left), "ok 30.00 1024");
  ASSERT_TRUE(mps.prepare(record("aaaa", Percent(20))));
  UniqueFd fresh;
  EXPECT_EQ(join(folder(), fresh), "ok 20.00 1024");
  char end = 0;
  EXPECT_EQ(::recv(left.number(), &end, 1, 0), 0) << "a program of the earlier container goes on";
  mps.stop();
}

TEST_F(MpsV3Test, AContainerDoesNotStartWithoutItsNamespace) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  behave("v3\nno-namespaces");
  const auto none = mps.prepare(record());
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message,
              AllOf(StartsWith("MPS of card \"GPU-a\" cannot limit the container: \"namespace "
                               "create 0123456789abcdef_aaaa --server=mgpu\" failed: "),
                    HasSubstr("Failed to create namespace")));
  behave("v3\nother-percentage");
  const auto other = mps.prepare(record());
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message,
              EndsWith("its namespace \"0123456789abcdef_aaaa\" has the percentage \"100.00\", "
                       "expected 30"));
  mps.stop();
}

// The container has mounted the folder, which stays.
TEST_F(MpsV3Test, MakesNamespacesAgainAfterItsDaemonWasStartedAgain) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  ASSERT_TRUE(mps.prepare(record()));
  const ino_t mounted = inode(folder());
  kill_mps_daemon(*daemon_of());
  until([&] { return mps.states().at(0).restarts == 1; });
  until_ready(mps);
  UniqueFd connection;
  EXPECT_EQ(join(folder(), connection), "Connection refused");
  const auto records = [] { return std::vector{record()}; };
  mps.keep_shares(records);
  EXPECT_EQ(join(folder(), connection), "ok 30.00 1024");
  EXPECT_EQ(inode(folder()), mounted);
  // It changes nothing if nothing is lost.
  const std::string before = calls();
  mps.keep_shares(records);
  EXPECT_EQ(calls(), before);
  EXPECT_THAT(before, EndsWith(kMade));
  mps.stop();
}

// The daemon goes on, and what the server leaves of its sockets is not taken for namespaces.
TEST_F(MpsV3Test, MakesNamespacesAgainAfterItsServerWasStartedAgain) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  ASSERT_TRUE(mps.prepare(record()));
  behave("v3\nserver-ends");
  until_problem(mps, "its server ended at its start");
  behave("v3");
  until_ready(mps);
  mps.keep_shares([] { return std::vector{record()}; });
  UniqueFd connection;
  EXPECT_EQ(join(folder(), connection), "ok 30.00 1024");
  mps.stop();
}

TEST_F(MpsV3Test, TriesAgainToMakeANamespaceAgain) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  ASSERT_TRUE(mps.prepare(record()));
  kill_mps_daemon(*daemon_of());
  until([&] { return mps.states().at(0).restarts == 1; });
  until_ready(mps);
  const auto records = [] { return std::vector{record()}; };
  behave("v3\nother-percentage");
  mps.keep_shares(records);
  UniqueFd connection;
  EXPECT_EQ(join(folder(), connection), "Connection refused");
  EXPECT_FALSE(std::filesystem::exists(socket_of_namespace()));
  behave("v3");
  mps.keep_shares(records);
  EXPECT_EQ(join(folder(), connection), "ok 30.00 1024");
  mps.stop();
}

// They have mounted the folder of a daemon of v2, and are limited by their environment.
TEST_F(MpsV3Test, ServesContainersThatADaemonOfV2HasServed) {
  behave("");
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  UniqueFd connection;
  ASSERT_EQ(join(folders().client, connection), "ok");
  behave("v3");
  kill_mps_daemon(*daemon_of());
  until([&] { return mps.states().at(0).restarts == 1; });
  until_ready(mps);
  EXPECT_EQ(join(folders().client, connection), "ok 100.00 0");
  mps.stop();
}

// That of v2 would give containers limits that they can raise.
TEST_F(MpsV3Test, StartsNoDaemonBeforeItsProtocolIsKnown) {
  options_.times.command = std::chrono::milliseconds(50);
  behave("v3\nslow-help");
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "does not end in time");
  EXPECT_EQ(calls(), "");
  mps.stop();
}

TEST_F(MpsV3Test, RemovesNamespacesWithoutAContainer) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  ASSERT_TRUE(mps.prepare(record()));
  ASSERT_TRUE(mps.prepare(record("bbbb")));
  UniqueFd connection;
  ASSERT_EQ(join(folder(), connection), "ok 30.00 1024");
  mps.keep_shares([] { return std::vector{record("bbbb")}; });
  EXPECT_FALSE(std::filesystem::exists(folder()));
  EXPECT_FALSE(std::filesystem::exists(socket_of_namespace()));
  EXPECT_TRUE(std::filesystem::exists(folder("bbbb") + "/control"));
  // A share that was made after the folders were listed stays, also where the records are older.
  mps.keep_shares([&] {
    EXPECT_TRUE(make_mps_share(options_, record()));
    return std::vector{record("bbbb")};
  });
  EXPECT_TRUE(std::filesystem::exists(folder() + "/control"));
  mps.stop();
}

TEST_F(MpsV3Test, AdoptsADaemonWithItsNamespaces) {
  {
    Mps mps(options_);
    mps.set_cards({kCard});
    until_ready(mps);
    ASSERT_TRUE(mps.prepare(record()));
  }
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  EXPECT_THAT(mps.edits(record()).mounts, ElementsAre(Mount{folder(), "/run/mgpu/mps", true}));
  mps.keep_shares([] { return std::vector{record()}; });
  UniqueFd connection;
  EXPECT_EQ(join(folder(), connection), "ok 30.00 1024");
  EXPECT_THAT(calls(), EndsWith(kMade));
  mps.stop();
}

// mgpu-mps runs the daemons of a node with the chart, and the plugin gives out their namespaces.
TEST_F(MpsV3Test, MakesNamespacesOfADaemonThatAnotherProcessRuns) {
  Mps runner(options_);
  runner.set_cards({kCard});
  until_ready(runner);
  MpsOptions options = options_;
  options.watch_only = true;
  Mps watcher(options);
  watcher.set_cards({kCard});
  until_ready(watcher);
  ASSERT_TRUE(watcher.prepare(record()));
  UniqueFd connection;
  EXPECT_EQ(join(folder(), connection), "ok 30.00 1024");
  runner.stop();
}

TEST_F(MpsV3Test, IsNotReadyWhileItsServerDoesNotRun) {
  behave("v3\nserver-fails");
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "its server ended at its start");
  behave("v3\ninitializing");
  until_problem(mps, "its server is being started");
  behave("v3\nfault");
  until_problem(mps, "a program's fault has stopped its server");
  behave("v3");
  until_ready(mps);
  mps.stop();
}

TEST_F(MpsV3Test, FindsAndEndsClients) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  ASSERT_TRUE(mps.prepare(record()));
  UniqueFd connection;
  ASSERT_EQ(join(folder(), connection), "ok 30.00 1024");
  const MpsV3 daemon{options_.control, folders(), std::chrono::seconds(20)};
  const auto listed = mps_v2_response(
      daemon,
      "get_default_active_thread_percentage\nget_server_list\nget_server_status 4242\n"
      "get_client_list 4242");
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(*listed, "100.0\n4242\nACTIVE\n4711\n");
  ASSERT_TRUE(mps_v2_response(daemon, "terminate_client 4242 4711"));
  char end = 0;
  EXPECT_EQ(::recv(connection.number(), &end, 1, 0), 0);
  const auto unknown = mps_v2_response(daemon, "ps");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "\"ps\" is not a command of MPS v2 that is known here");
  mps.stop();
}

// Its version may go back with the driver's, and the folders of containers have gone with the
// node's last start.
TEST_F(MpsV3Test, GivesContainersOfAnOlderProgramTheSocketOfTheDaemon) {
  behave("");
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  ASSERT_TRUE(mps.prepare(record()));
  EXPECT_THAT(mps.edits(record()).mounts,
              ElementsAre(Mount{folders().client, "/run/mgpu/mps", true}));
  EXPECT_FALSE(std::filesystem::exists(folders().shares));
  EXPECT_EQ(calls(), "start GPU-a");
  mps.stop();
}

// That of the daemon itself is short enough.
TEST_F(MpsV3Test, StartsNoDaemonWhosePathIsTooLongForTheSocketsOfContainers) {
  options_.run_dir += "/" + std::string(60 - options_.run_dir.size(), 'x');
  ASSERT_TRUE(make_mps_folders(mps_folders(options_.run_dir, kCard)));
  std::ofstream(options_.run_dir + "/mps/GPU-a/behaviour") << "v3\n";
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "is too long for the sockets of containers");
  mps.stop();
}

}  // namespace
}  // namespace mgpu::plugin
