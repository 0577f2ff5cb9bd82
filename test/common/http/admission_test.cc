#include "common/http/admission.h"

#include <gtest/gtest.h>

#include <string>

#include "common/http/limits.h"

namespace mgpu::http {
namespace {

using At = std::chrono::steady_clock::time_point;
using std::chrono::seconds;

OpenConnection idle(const std::string& address, int since) {
  return {.address = address, .served = true, .waiting_since = At(seconds(since))};
}
OpenConnection fresh(const std::string& address, int since) {
  return {.address = address, .waiting_since = At(seconds(since))};
}
OpenConnection busy(const std::string& address) {
  return {.address = address, .waiting = false, .served = true};
}
OpenConnection trusted(const std::string& address) {
  return {.address = address, .trusted = true, .served = true};
}

// "ok", "closes 2" or the reason of the refusal.
std::string decision(const std::string& address, const std::vector<OpenConnection>& open,
                     ConnectionLimits limits) {
  const Admission admission = admit(address, open, limits);
  if (admission.refused != nullptr) return admission.refused;
  return admission.closes ? "closes " + std::to_string(*admission.closes) : "ok";
}

TEST(Admission, DecidesByTheRules) {
  const std::string a = "10.0.0.1";
  const std::string b = "10.0.0.2";
  const std::string local = "127.0.0.1";
  struct Case {
    const char* rule;
    std::string address;
    std::vector<OpenConnection> open;
    ConnectionLimits limits;
    std::string decision;
  };
  const Case cases[] = {
      {"there is room", a, {idle(a, 1)}, {2, 2}, "ok"},
      {"the longest idle one ends", a, {idle(b, 5), idle(b, 3), idle(b, 4)}, {3, 9}, "closes 1"},
      {"one without a request ends before", a, {idle(b, 1), fresh(b, 9)}, {2, 9}, "closes 1"},
      {"one that is handled does not end", a, {busy(b), idle(b, 9)}, {2, 9}, "closes 1"},
      {"all are handled", a, {busy(b), busy(b)}, {2, 9}, "too_many_connections"},
      {"a trusted one does not end", a, {trusted(b), idle(b, 9)}, {2, 9}, "closes 1"},
      {"all are trusted", a, {trusted(a), trusted(b)}, {2, 9}, "too_many_connections"},
      {"an address takes its own place", a, {fresh(b, 1), fresh(a, 2)}, {9, 1}, "closes 1"},
      {"an address has used its places",
       a,
       {idle(b, 1), busy(a)},
       {9, 1},
       "too_many_connections_of_address"},
      {"trusted ones do not count for an address", a, {trusted(a), trusted(a)}, {9, 1}, "ok"},
      {"loopback has no limit of its own", local, {busy(local), busy(local)}, {9, 1}, "ok"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(decision(c.address, c.open, c.limits), c.decision) << c.rule;
  }
}

TEST(Admission, AConnectionThatIsClosingIsNotClosedAgain) {
  std::vector<OpenConnection> open = {fresh("10.0.0.1", 1), fresh("10.0.0.1", 2)};
  open[0].closing = true;
  EXPECT_EQ(decision("10.0.0.2", open, {1, 9}), "closes 1");
  open[1].closing = true;
  EXPECT_EQ(decision("10.0.0.2", open, {1, 9}), "ok") << "both leave their places";
}

TEST(Admission, ConnectionsThatAreClosingHaveALimit) {
  std::vector<OpenConnection> open(kHttpClosingMax, fresh("10.0.0.1", 1));
  for (OpenConnection& each : open) each.closing = true;
  EXPECT_EQ(decision("10.0.0.2", open, {1, 9}), "too_many_connections");
}

}  // namespace
}  // namespace mgpu::http
