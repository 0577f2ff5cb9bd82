// A binder with its ledger over the in-memory API server, and what tests do with it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "extender/bind/limits.h"
#include "test/extender/bind/binder_world.h"
#include "test/support/faulty_api_server.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender::test {

using mgpu::test::Fault;
using mgpu::test::ManualExecutor;

struct BinderTest : testing::Test, VerbsWorld {
  BinderTest() {
    test::add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
    process.lease.take([](const kube::ApiResult<void>& taken) { EXPECT_TRUE(taken); });
    executor.run_ready();
    make_binder();
  }

  void make_binder(std::size_t in_flight = 8) {
    binder = std::make_unique<Binder>(
        client, context, process.guards(), in_flight,
        BinderEvents{[this](BindOutcome outcome) { outcomes.push_back(outcome); },
                     [this](const std::string& problem) { problems.push_back(problem); },
                     [this] { ++conflicts; }});
  }

  void begin(const BindingArgs& args) {
    binder->bind(args, [this](std::string error) { answers.push_back(std::move(error)); });
  }
  std::string bind(const BindingArgs& args) {
    begin(args);
    executor.run_ready();
    EXPECT_EQ(answers.size(), 1u);
    std::string answer = answers.empty() ? "no answer" : answers.back();
    answers.clear();
    return answer;
  }

  // Injects `fault` into the requests that `which` selects.
  void fail(bool (*which)(const kube::Request&), Fault fault) {
    server.set_faults([which, fault](const kube::Request& request) {
      return which(request) ? std::optional(fault) : std::nullopt;
    });
  }
  // The POSTs of bindings are answered with `posts`, and after that the pods can be neither touched
  // nor read.
  void lose_track(Fault posts) {
    auto touched = std::make_shared<std::set<std::string>>();
    server.set_faults([posts, touched](const kube::Request& request) -> std::optional<Fault> {
      if (is_bind(request)) return posts;
      if (is_touch(request)) touched->insert(request.target);
      const bool is_lost = is_touch(request) || touched->contains(request.target + "/status");
      return is_lost ? std::optional(Fault{.kind = Fault::Kind::kRefuse}) : std::nullopt;
    });
  }
  // The requests of each kind that are sent from now on: "pod", "lease", "bind", "touch".
  std::vector<std::string>& record() {
    sent.clear();
    server.set_faults([this](const kube::Request& request) -> std::optional<Fault> {
      if (is_bind(request)) sent.emplace_back("bind");
      if (is_touch(request)) sent.emplace_back("touch");
      if (is_lease(request)) sent.emplace_back("lease");
      if (is_get(request)) sent.emplace_back("pod");
      return std::nullopt;
    });
    return sent;
  }
  void annotate(const std::string& pod, const std::string& key, const std::string& value) {
    kube::Request request;
    request.method = kube::Method::kPatch;
    request.target = "/api/v1/namespaces/d/pods/" + pod;
    request.content_type = "application/merge-patch+json";
    request.body = R"({"metadata":{"annotations":{")" + key + "\":\"" + value + "\"}}}";
    EXPECT_TRUE(server.call(request).ok());
  }
  void nominate(const std::string& pod, const std::string& node) {
    EXPECT_TRUE(server.call(kube::nominate(test::pod_at(server, pod), NodeName(node))).ok());
  }
  void clear_faults() { server.set_faults(nullptr); }
  // Runs `act` once, before the first POST of a binding is served.
  void before_bind(std::function<void()> act) {
    server.set_faults([act = std::move(act),
                       done = false](const kube::Request& request) mutable -> std::optional<Fault> {
      if (is_bind(request) && !std::exchange(done, true)) act();
      return std::nullopt;
    });
  }

  ManualExecutor executor;
  mgpu::test::FaultyApiServer server{executor, {}};
  kube::Client client{server};
  test::Process process{client, options.contract};
  int conflicts = 0;
  std::vector<BindOutcome> outcomes;
  std::vector<std::string> problems;
  std::vector<std::string> answers;
  std::vector<std::string> sent;
  std::unique_ptr<Binder> binder;
};

}  // namespace mgpu::extender::test
