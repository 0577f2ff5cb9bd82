#include "plugin/cards/mps/mps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "common/base/files.h"
#include "plugin/cards/mps/mps_daemon.h"
#include "plugin/cards/mps/mps_process.h"
#include "test/plugin/cards/fake_driver.h"
#include "test/plugin/cards/mps/mps_fixture.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::Pair;
using testing::SizeIs;
using testing::StartsWith;

TEST_F(MpsTest, StartsOneDaemonForEachCard) {
  Mps mps(options_);
  mps.set_cards({kCard, kOther});
  until_ready(mps, kCard);
  until_ready(mps, kOther);
  EXPECT_EQ(calls(kCard), "start GPU-a");
  EXPECT_EQ(calls(kOther), "start GPU-b");
  ASSERT_THAT(mps.states(), SizeIs(2));
  EXPECT_TRUE(mps.states()[0].running);
  EXPECT_EQ(mps.states()[0].restarts, 0);
  mps.stop();
}

TEST_F(MpsTest, ReportsACardWithoutADaemon) {
  const Mps mps(options_);
  EXPECT_EQ(problem_of(mps), "MPS of card \"GPU-a\" does not run: it is not started yet");
  EXPECT_THAT(mps.states(), IsEmpty());
}

TEST_F(MpsTest, ReportsAMissingProgramAndTriesAgain) {
  const std::string there = options_.control;
  options_.control = there + ".late";
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "cannot start " + options_.control + ": No such file or directory");
  std::filesystem::create_symlink(there, options_.control);
  until_ready(mps);
  EXPECT_GE(mps.states().at(0).restarts, 1);
  mps.stop();
  std::filesystem::remove(options_.control);
}

TEST_F(MpsTest, ReportsTheOutputOfADaemonThatEndedAtOnce) {
  behave("crash");
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "its control daemon ended at once: \"no such card\"");
  behave("");
  until_ready(mps);
  mps.stop();
}

// Drivers before R555 do not know the option, and act as a client then.
TEST_F(MpsTest, StartsTheDaemonOfAnOldDriverWithAServerForOneUser) {
  behave("no-multiuser");
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  EXPECT_EQ(calls(), "start GPU-a");
  EXPECT_EQ(mps.states().at(0).restarts, 0);
  mps.stop();
}

// The program prints the same if it finds no daemon for another reason.
TEST_F(MpsTest, TriesAServerForOneUserOnlyOnce) {
  options_.arguments = {"-multiuser-server"};  // acts as a client, with the option and without it
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps,
                "its control daemon ended at once: \"Cannot find MPS control daemon process\"");
  mps.stop();
}

TEST_F(MpsTest, RestartsADaemonThatEnds) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  const auto first = daemon_of();
  ASSERT_TRUE(first);
  kill_mps_daemon(*first);
  until([&] { return mps.states().at(0).restarts == 1; });
  until_ready(mps);
  EXPECT_NE(daemon_of(), first);
  mps.stop();
}

// What containers get has no FIFO, which would stop the daemon, and no socket for commands of root.
TEST_F(MpsTest, GivesContainersTheSocketForClientsAlone) {
  const auto socket_of = [](const std::string& folder) {
    struct stat socket {};
    EXPECT_EQ(::stat((folder + "/control").c_str(), &socket), 0) << folder;
    return socket.st_ino;
  };
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  EXPECT_THAT(names_in(folders().pipe), IsSupersetOf({"control_privileged", "log"}));
  EXPECT_THAT(names_in(folders().client), ElementsAre("control"));
  EXPECT_EQ(socket_of(folders().client), socket_of(folders().pipe));
  MpsFolders of_container = folders();
  of_container.pipe = of_container.client;
  const auto sent = [&](const std::string& text) {
    const auto response = mps_command(options_.control, of_container, text, seconds(20));
    return response ? *response : response.error().message;
  };
  EXPECT_EQ(sent("get_default_active_thread_percentage"), "100.0\n");
  EXPECT_THAT(sent("quit"), HasSubstr("Not enough privilege"));

  // Containers that run have mounted the folder, which stays.
  struct stat before {};
  ASSERT_EQ(::stat(folders().client.c_str(), &before), 0);
  kill_mps_daemon(*daemon_of());
  until([&] { return mps.states().at(0).restarts == 1; });
  until_ready(mps);
  EXPECT_EQ(sent("get_default_active_thread_percentage"), "100.0\n");
  EXPECT_THAT(names_in(folders().client), ElementsAre("control"));
  EXPECT_EQ(socket_of(folders().client), socket_of(folders().pipe));
  struct stat after {};
  ASSERT_EQ(::stat(folders().client.c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  mps.stop();
}

// An earlier version has started the daemon, or somebody has removed the folder.
TEST_F(MpsTest, MakesTheFolderOfContainersForADaemonThatItFinds) {
  {
    Mps mps(options_);
    mps.set_cards({kCard});
    until_ready(mps);
  }
  std::filesystem::remove_all(folders().client);
  options_.watch_only = true;
  Mps watcher(options_);
  watcher.set_cards({kCard});
  until_ready(watcher);
  EXPECT_TRUE(std::filesystem::is_socket(folders().client + "/control"));
}

TEST_F(MpsTest, IsNotReadyWithoutTheFolderOfContainers) {
  behave("");
  std::filesystem::remove_all(folders().client);
  std::ofstream(folders().client) << "no folder";
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "cannot create \"" + folders().client + "\"");
  std::filesystem::remove(folders().client);
  until_ready(mps);
  mps.stop();
}

TEST_F(MpsTest, ProbesTheDaemonWhenItIsNeeded) {
  options_.times.tick = options_.times.probe = seconds(3600);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  ASSERT_EQ(::kill(daemon_of()->pid, SIGKILL), 0);
  until([this] { return !daemon_of(); });
  EXPECT_THAT(problem_of(mps), AllOf(StartsWith("MPS of card \"GPU-a\" does not run: "),
                                     HasSubstr("Cannot find MPS control daemon process")));
}

TEST_F(MpsTest, WaitsForADaemonThatStartsSlowly) {
  behave("slow");
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "it is being started");
  behave("");
  until_ready(mps);
  EXPECT_EQ(calls(), "start GPU-a");
  mps.stop();
}

TEST_F(MpsTest, FailsADaemonThatDoesNotRespondAfterItsStart) {
  behave("slow");
  options_.times.start = milliseconds(1);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "does not respond after its start");
  mps.stop();
  EXPECT_EQ(daemon_of(), std::nullopt);
}

// --- outliving the plugin ------------------------------------------------------------------------

TEST_F(MpsTest, LeavesDaemonsRunningAndAdoptsThem) {
  std::optional<DaemonProcess> first;
  {
    Mps mps(options_);
    mps.set_cards({kCard});
    until_ready(mps);
    first = daemon_of();
  }
  ASSERT_TRUE(first);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  EXPECT_EQ(daemon_of(), first);
  EXPECT_EQ(calls(), "start GPU-a");
  mps.stop();
}

TEST_F(MpsTest, AdoptsADaemonWithoutADaemonFile) {
  {
    Mps mps(options_);
    mps.set_cards({kCard});
    until_ready(mps);
  }
  std::filesystem::remove(folders().daemon_file);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  EXPECT_EQ(calls(), "start GPU-a");
  mps.stop();
  EXPECT_THAT(calls(), EndsWith("quit"));
}

TEST_F(MpsTest, DoesNotMistakeAnotherProcessForItsDaemon) {
  ASSERT_TRUE(make_mps_folders(folders()));
  for (const std::string& text :
       {std::to_string(::getpid()) + " 1", std::string("1 1"), std::string("-1 0"),
        std::string("0 0"), std::string("x"), std::string(), std::string("99999999999999 1")}) {
    std::ofstream(folders().daemon_file, std::ios::trunc) << text;
    EXPECT_EQ(daemon_of(), std::nullopt) << text;
  }
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  mps.stop();
}

// --- its server ----------------------------------------------------------------------------------

// Otherwise every program on the card fails, and nobody says why.
TEST_F(MpsTest, ReportsWhyItsServerDoesNotStart) {
  behave("server-fails");
  options_.times.down_max = milliseconds(0);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "its server ended at its start");
  EXPECT_EQ(mps.problem_of(card()),
            "MPS does not run for this card: its server ended at its start: "
            "\"Failed to start : no CUDA-capable device is detected\"");
  until([&] { return mps.states().at(0).restarts > 2; });
  EXPECT_EQ(mps.problem_of(card()),
            "MPS does not run for this card: its server ended at its start: "
            "\"Failed to start : no CUDA-capable device is detected\"")
      << "while it is tried again";
  behave("");
  until_ready(mps);
  EXPECT_EQ(mps.problem_of(card()), "");
  mps.stop();
}

TEST_F(MpsTest, WaitsForAServerThatStartsSlowly) {
  behave("initializing");
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "its server is being started");
  behave("");
  until_ready(mps);
  EXPECT_EQ(calls(), "start GPU-a");
  mps.stop();
}

TEST_F(MpsTest, FailsADaemonWhoseServerServesNobody) {
  {
    Mps mps(options_);
    mps.set_cards({kCard});
    until_ready(mps);
  }
  const auto first = daemon_of();
  behave("initializing");
  options_.times.start = milliseconds(0);
  Mps mps(options_);
  mps.set_cards({kCard});
  until([&] { return daemon_of() != first; });
  until([&] { return !mps.states().empty() && !mps.states().at(0).server_problem.empty(); });
  EXPECT_EQ(mps.states().at(0).server_problem, "its server serves no programs after its start");
  mps.stop();
}

TEST_F(MpsTest, KeepsADaemonWithClientsWhoseServerServesNobody) {
  {
    Mps mps(options_);
    mps.set_cards({kCard});
    until_ready(mps);
  }
  const auto kept = daemon_of();
  behave("initializing\nclients 7");
  options_.times.start = milliseconds(0);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "its server is being started");
  // It is kept through several probes.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(mps_command(options_.control, folders(), "get_server_list", seconds(20)));
  }
  behave("clients 7");
  until_ready(mps);
  EXPECT_EQ(daemon_of(), kept);
}

TEST_F(MpsTest, BelievesADaemonThatKnowsNoStatus) {
  behave("no-status");
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  mps.stop();
}

// mgpu-mps may be of an earlier version, which starts no server.
TEST_F(MpsTest, StartsTheServerOfADaemonThatAnotherProcessHasStarted) {
  ASSERT_TRUE(start_mps_daemon(options_.control, options_.arguments, false, folders(), kCard));
  options_.watch_only = true;
  Mps watcher(options_);
  watcher.set_cards({kCard});
  until_ready(watcher);
  EXPECT_EQ(mps_command(options_.control, folders(), "get_server_list", seconds(20)).value(),
            "4242\n");
}

TEST_F(MpsTest, AsksForTheClientsOfServersThatItKnowsInOneSession) {
  behave("clients 7 8");
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  for (const std::vector<std::int64_t>& known :
       {std::vector<std::int64_t>{}, {4242}, {4'243}, {4'243, 4'242}}) {
    const auto load = ask_mps(options_, folders(), known);
    ASSERT_TRUE(load) << load.error().message;
    EXPECT_THAT(load->servers, ElementsAre(4242));
    EXPECT_THAT(load->clients, ElementsAre(7, 8));
    EXPECT_TRUE(load->active);
  }
  behave("");
  mps.stop();
}

// The daemon writes some lines for each session, and lives for months.
TEST_F(MpsTest, KeepsTheEndOfALongLogOnly) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  const std::string log = folders().log + "/daemon.log";
  std::ofstream(log, std::ios::app) << std::string(kMpsLogBytesMax, 'x') << "\nthe last line\n";
  until([&] { return std::filesystem::file_size(log) <= kMpsLogBytesMax; });
  until([&] { return last_log_line(folders()) == ": \"the last line\""; });
  EXPECT_EQ(std::filesystem::file_size(log), kMpsLogBytesKept);
  kill_mps_daemon(*daemon_of());
  mps.stop();
}

// NVIDIA's daemon looks for the program of its server in PATH.
TEST_F(MpsTest, FindsTheServerBesideTheControlProgram) {
  const std::string folder = folders().log + "/../bin";
  behave("");
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/control")
      << "#!/bin/sh\nprintf '%s' \"$PATH\" >" << folder << "/path.new && mv " << folder
      << "/path.new " << folder << "/path\n";
  std::filesystem::permissions(folder + "/control", std::filesystem::perms::owner_all);
  ASSERT_TRUE(start_mps_daemon(folder + "/control", {}, false, folders(), kCard));
  until([&] { return std::filesystem::exists(folder + "/path"); });
  std::string path;
  std::getline(std::ifstream(folder + "/path"), path);
  EXPECT_THAT(path, StartsWith(folder + ":"));
}

// Every user of a container can do so.
TEST_F(MpsTest, NamesTheProcessWhoseConnectionBlocksTheDaemon) {
  options_.times.command = milliseconds(300);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  EXPECT_EQ(mps.states().at(0).blocked_by, 0);
  {
    const UniqueFd idle(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un control{};
    control.sun_family = AF_UNIX;
    (folders().client + "/control").copy(control.sun_path, sizeof control.sun_path - 1);
    ASSERT_EQ(::connect(idle.number(), reinterpret_cast<const sockaddr*>(&control), sizeof control),
              0);
    std::int64_t by = 0;
    until([&] { return (by = mps.states().at(0).blocked_by) != 0; });
    EXPECT_EQ(by, ::getpid());
  }
  until_ready(mps);
  EXPECT_EQ(mps.states().at(0).blocked_by, 0);
  mps.stop();
}

// Two daemons in one folder would replace each other's sockets. NVIDIA's program refuses to start
// as the second one.
TEST_F(MpsTest, ReportsWhyASecondDaemonInTheSameFolderEnded) {
  const auto start = [&] {
    return start_mps_daemon(options_.control, options_.arguments, false, folders(), kCard);
  };
  const auto first = start();
  ASSERT_TRUE(first);
  until([&] { return ask_mps(options_, folders()).has_value(); });
  const auto second = start();
  ASSERT_TRUE(second);
  until([&] { return !is_alive(*second); });
  EXPECT_EQ(last_log_line(folders()), ": \"An instance of this daemon is already running\"");
  EXPECT_TRUE(is_alive(*first));
  EXPECT_EQ(calls(), "start GPU-a");
  kill_mps_daemon(*first);
}

// The daemons of mgpu-mps.
TEST_F(MpsTest, OnlyWatchesTheDaemonsOfAnotherProcess) {
  MpsOptions watching = options_;
  watching.watch_only = true;
  Mps watcher(watching);
  watcher.set_cards({kCard});
  until_problem(watcher, "mgpu-mps does not run its daemon");
  EXPECT_EQ(daemon_of(), std::nullopt) << "it starts none";
  auto service = std::make_unique<Mps>(options_);
  service->set_cards({kCard});
  until_ready(*service);
  until_ready(watcher);
  const auto kept = daemon_of();
  watcher.set_cards({});
  until([&] { return watcher.states().empty(); });
  watcher.stop();
  EXPECT_EQ(daemon_of(), kept) << "it ends none";
  watcher.set_cards({kCard});
  until_ready(watcher);
  service->stop();
  until_problem(watcher, "MPS of card \"GPU-a\" does not run");
  service = std::make_unique<Mps>(options_);
  service->set_cards({kCard});
  until_ready(watcher);
  service->stop();
}

TEST_F(MpsTest, LeavesADaemonInFaultToItsProcess) {
  auto service = std::make_unique<Mps>(options_);
  service->set_cards({kCard});
  until_ready(*service);
  service.reset();
  options_.watch_only = true;
  options_.times.fault = milliseconds(0);
  Mps watcher(options_);
  watcher.set_cards({kCard});
  until_ready(watcher);
  behave("fault\nclients " + std::to_string(::getpid()));
  until_problem(watcher, "a program's fault");
  behave("");
  until_ready(watcher);
  EXPECT_THAT(calls(), Not(HasSubstr("quit")));
  EXPECT_EQ(watcher.states().at(0).restarts, 0);
}

TEST_F(MpsTest, DrainsDaemonsThatAnEarlierProcessLeft) {
  {
    Mps mps(options_);
    mps.set_cards({kCard, kOther});
    until_ready(mps, kCard);
    until_ready(mps, kOther);
  }
  Mps mps(options_);
  mps.set_cards({kOther});
  until([&] { return !daemon_of(kCard); });
  EXPECT_EQ(calls(kCard), "start GPU-a, quit");
  until_ready(mps, kOther);
  mps.stop();
}

// --- ending --------------------------------------------------------------------------------------

TEST_F(MpsTest, DrainsBeforeItQuits) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  behave("clients 0 " + std::to_string(::getpid()));
  mps.set_cards({});
  // It runs as long as it has clients, through several probes.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(mps_command(options_.control, folders(), "get_server_list", seconds(20)));
  }
  EXPECT_EQ(calls(), "start GPU-a");
  EXPECT_TRUE(daemon_of());
  behave("clients");
  until([&] { return !daemon_of(); });
  until([&] { return mps.states().empty(); });
  EXPECT_EQ(calls(), "start GPU-a, quit");
}

TEST_F(MpsTest, KeepsADrainingDaemonWhoseCardIsSetAgain) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  behave("clients 0");
  mps.set_cards({});
  mps.set_cards({kCard});
  until_ready(mps);
  EXPECT_EQ(calls(), "start GPU-a");
  mps.stop();
}

TEST_F(MpsTest, StopsDaemonsWithClientsAndThoseThatDoNotQuit) {
  options_.times.quit = milliseconds(50);
  Mps mps(options_);
  mps.set_cards({kCard, kOther});
  until_ready(mps, kCard);
  until_ready(mps, kOther);
  behave("no-quit\nclients 0", kCard);
  behave("clients 0", kOther);
  mps.stop();
  EXPECT_EQ(daemon_of(kCard), std::nullopt);
  EXPECT_EQ(daemon_of(kOther), std::nullopt);
  EXPECT_EQ(calls(kOther), "start GPU-b, quit");
  EXPECT_THAT(mps.states(), IsEmpty());
}

TEST_F(MpsTest, StopsDaemonsThatNeverStarted) {
  Mps(options_).stop();
  behave("crash");
  Mps mps(options_);
  mps.set_cards({kCard});
  mps.stop();
  EXPECT_EQ(daemon_of(), std::nullopt);
}

TEST_F(MpsTest, LeavesNoZombies) {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;  // of other tests
  {
    Mps mps(options_);
    mps.set_cards({kCard});
    until_ready(mps);
    kill_mps_daemon(*daemon_of());
    until([&] { return mps.states().at(0).restarts == 1; });
    until_ready(mps);
    mps.stop();
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(MpsTest, LeaksNoFileDescriptors) {
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const auto before = open_files();
  options_.times.tick = options_.times.probe = seconds(3600);
  {
    Mps mps(options_);
    mps.set_cards({kCard});
    until_ready(mps);
    behave("no-response");
    EXPECT_FALSE(mps_command(options_.control, folders(), "x", milliseconds(50)));
    behave("");
    mps.stop();
  }
  EXPECT_EQ(open_files(), before);
}

// --- clients of containers that are about to be killed ------------------------------------------

// Chooses these clients of card GPU-a. Both cards are due.
class EndsClients : public MpsClientTerminator {
 public:
  Due due() override {
    ++steps;
    if (!is_due) return {};
    return {.cards = {kCard, kOther}};
  }
  std::optional<PodUid> pod_of(const CardUuid& card, std::int64_t pid) override {
    const bool chosen = card == kCard && (pid == 11 || pid == 12 || pid == 99);
    return chosen ? std::optional(PodUid("a")) : std::nullopt;
  }

  std::atomic<bool> is_due = true;
  std::atomic<int> steps = 0;
};

TEST_F(MpsTest, EndsTheClientsThatAreChosen) {
  EndsClients terminator;
  options_.terminator = &terminator;
  for (const CardUuid& card : {kCard, kOther}) behave("clients 11 12 13", card);
  Mps mps(options_);
  mps.set_cards({kCard, kOther});
  until_ready(mps, kOther);
  until([this] { return calls().find("terminate_client 4242 12") != std::string::npos; });
  // Both cards have had steps since then in which other clients could have been ended.
  until([&, at = terminator.steps.load()] { return terminator.steps > at + 3; });
  EXPECT_EQ(calls(), "start GPU-a, terminate_client 4242 11, terminate_client 4242 12");
  EXPECT_EQ(calls(kOther), "start GPU-b");
  for (const CardUuid& card : {kCard, kOther}) behave("", card);
  mps.stop();
}

TEST_F(MpsTest, EndsClientsWhileTheDaemonOfAnotherCardDoesNotRespond) {
  EndsClients terminator;
  terminator.is_due = false;
  options_.terminator = &terminator;
  options_.times.command = std::chrono::hours(1);
  behave("clients 11");
  behave("no-response", kOther);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  mps.set_cards({kCard, kOther});
  until([this] { return calls(kOther).find("no response to") != std::string::npos; });
  terminator.is_due = true;
  until([this] { return calls().find("terminate_client 4242 11") != std::string::npos; });
  // Ends the command, which waits.
  for (const CardUuid& card : {kCard, kOther}) behave("", card);
  kill_mps_daemon(*daemon_of(kOther));
  until_ready(mps, kOther);
  mps.stop();
}

// --- faults --------------------------------------------------------------------------------------

TEST_F(MpsTest, RestartsADaemonWhoseServerStaysInFault) {
  options_.times.fault = milliseconds(20);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  behave("fault\nclients " + std::to_string(::getpid()));
  until([&] { return calls().find("quit") != std::string::npos; });
  behave("");
  until_ready(mps);
  EXPECT_THAT(calls(), HasSubstr("quit, start GPU-a"));
  mps.stop();
}

// As the servers of Volta and later do once the clients have ended.
TEST_F(MpsTest, LeavesADaemonWhoseServerRunsAgainAfterAFault) {
  options_.times.fault = seconds(3600);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  behave("fault\nclients " + std::to_string(::getpid()));
  until_problem(mps, "a program's fault");
  behave("");
  until_ready(mps);
  EXPECT_EQ(mps.states().at(0).restarts, 0);
  EXPECT_THAT(calls(), Not(HasSubstr("quit")));
  mps.stop();
}

TEST_F(MpsTest, ReportsACardWhoseProgramsItCannotLimit) {
  const Mps mps(options_);
  FoundCard pascal = card();
  pascal.compute_capability = {6, 1};
  EXPECT_EQ(mps.problem_of(pascal),
            "MPS cannot limit programs on this card: it has compute capability 6.1, and needs 7.0");
  FoundCard volta = card();
  volta.compute_capability = {7, 0};
  EXPECT_EQ(mps.problem_of(volta), "");
  EXPECT_EQ(mps.problem_of(card()), "") << "it is not known";
}

TEST_F(MpsTest, ReportsACardWhoseDaemonHasNotRunForLong) {
  options_.control = "/nonexistent/control";
  options_.times.down_max = seconds(3600);
  {
    Mps mps(options_);
    mps.set_cards({kCard});
    until([&] { return !mps.states().empty(); });
    EXPECT_EQ(mps.problem_of(card()), "") << "a restart takes some seconds";
  }
  options_.times.down_max = milliseconds(1);
  Mps mps(options_);
  EXPECT_EQ(mps.problem_of(card()), "");
  mps.set_cards({kCard});
  until([&] { return !mps.problem_of(card()).empty(); });
  EXPECT_THAT(mps.problem_of(card()), StartsWith("MPS does not run for this card"));
  EXPECT_EQ(mps.problem_of(card(kOther)), "");
}

TEST_F(MpsTest, RestartsADaemonThatDoesNotRespondAndHasNoClients) {
  options_.times.command = milliseconds(100);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  const auto before = daemon_of();
  behave("no-response");
  until_problem(mps, "its control daemon does not respond");
  until([&] { return daemon_of() != before; });
  behave("");
  until_ready(mps);
  mps.stop();
}

TEST_F(MpsTest, KeepsADaemonThatDoesNotRespondAndHasClients) {
  behave("clients 7 0");
  options_.times.command = milliseconds(200);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  const auto kept = daemon_of();
  behave("no-response");
  until_problem(mps, "programs that use it go on, and it is restarted once they have ended");
  EXPECT_EQ(daemon_of(), kept);
}

TEST_F(MpsTest, DoesNotAcceptAnInvalidResponse) {
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  for (const std::string word : {"invalid-response", "long-response"}) {
    behave(word + "\nclients 0");
    until([&] { return problem_of(mps) != "none"; });
    behave("clients 0");
    until_ready(mps);
  }
  behave("");
  mps.stop();
}

TEST_F(MpsTest, RefusesAPipeDirectoryTooLongForASocket) {
  options_.run_dir = "/tmp/" + std::string(90, 'x');
  Mps mps(options_);
  mps.set_cards({kCard});
  until_problem(mps, "must have at most 80 bytes");
}

TEST_F(MpsTest, SkipsUuidsThatAreNotValidInPaths) {
  Mps mps(options_);
  mps.set_cards({CardUuid("../x"), CardUuid(""), kCard});
  until_ready(mps);
  EXPECT_THAT(mps.states(), SizeIs(1));
  mps.stop();
}

// --- commands ------------------------------------------------------------------------------------

TEST_F(MpsTest, LimitsTimeAndOutputOfEveryCommand) {
  options_.times.tick = options_.times.probe = seconds(3600);
  Mps mps(options_);
  mps.set_cards({kCard});
  until_ready(mps);
  const auto response_of = [&](const std::string& control, milliseconds timeout) {
    const auto response = mps_command(control, folders(), "get_server_list", timeout);
    return response ? "\"" + *response + "\"" : response.error().message;
  };
  EXPECT_EQ(response_of(options_.control, seconds(20)), "\"4242\n\"");
  EXPECT_EQ(response_of("/bin/false", seconds(20)), "\"get_server_list\" failed: exit code 1");
  EXPECT_EQ(response_of("/nonexistent", seconds(20)),
            "\"get_server_list\" failed: cannot start /nonexistent: No such file or directory");
  EXPECT_EQ(response_of("/bin/true", seconds(20)), "\"\"");
  EXPECT_THAT(response_of("/bin/cat", seconds(20)), HasSubstr("get_server_list"));
  behave("no-response");
  EXPECT_EQ(response_of(options_.control, milliseconds(20)),
            "\"get_server_list\" failed: no response in time");
  behave("long-response");
  EXPECT_EQ(response_of(options_.control, seconds(20)),
            "\"get_server_list\" failed: its output has over 65536 bytes");
  behave("");
  mps.stop();
}

TEST(MpsResponses, AreParsedStrictly) {
  EXPECT_THAT(parse_pids("12\n34\n"), ElementsAre(12, 34));
  EXPECT_THAT(parse_pids(""), IsEmpty());
  EXPECT_THAT(parse_pids("Server -1 12x 99999999999 7"), ElementsAre(7));
  EXPECT_TRUE(is_percentage("100.0\n"));
  EXPECT_TRUE(is_percentage(" 0 "));
  for (const char* text : {"", "101", "-1", "nan", "ten", "10 20", "1e999"}) {
    EXPECT_FALSE(is_percentage(text)) << text;
  }
}

// --- what containers get -------------------------------------------------------------------------

Record record_of(std::vector<CardGrant> cards) {
  Record record;
  record.cards = std::move(cards);
  return record;
}

TEST(MpsEdits, LimitAContainerWithAShareOfACard) {
  MpsOptions options;
  options.run_dir = "/run/mgpu";
  const auto edits =
      mps_edits(options, record_of({{CardIndex(3), CardUuid("GPU-a"), {Percent(30), MiB(1024)}}}));
  EXPECT_THAT(edits.mounts,
              ElementsAre(Mount{"/run/mgpu/mps/GPU-a/client", "/run/mgpu/mps", true}));
  EXPECT_THAT(edits.environment, ElementsAre(Pair("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30"),
                                             Pair("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1024M"),
                                             Pair("CUDA_MPS_PIPE_DIRECTORY", "/run/mgpu/mps")));
  EXPECT_THAT(edits.devices, IsEmpty());
}

TEST(MpsEdits, HaveNoPercentageForAWholeCard) {
  const auto edits =
      mps_edits({}, record_of({{CardIndex(0), CardUuid("GPU-a"), {kWholeCard, MiB(1024)}}}));
  EXPECT_THAT(edits.environment,
              AllOf(SizeIs(2), Not(Contains(Pair("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100")))));
}

TEST(MpsEdits, AreEmptyForSeveralCardsOrNone) {
  const CardGrant card{CardIndex(0), CardUuid("GPU-a"), {Percent(50), MiB(1)}};
  const CardGrant other{CardIndex(1), CardUuid("GPU-b"), {Percent(50), MiB(1)}};
  EXPECT_EQ(mps_edits({}, record_of({card, other})), Edits());
  EXPECT_EQ(mps_edits({}, record_of({})), Edits());
}

}  // namespace
}  // namespace mgpu::plugin
