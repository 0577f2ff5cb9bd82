// Which process of the extender may decide, by the Lease as the API server has it, and whether a
// process breaks the rules: one that has never held the Lease answers no verb and sends no binding,
// no binding of an earlier leader happens once a later one decides, nobody takes the Lease from a
// leader that renews it, and who has decided does not take it again from another one.
//
// It is not part of the programs under test. Processes have numbers; 0 is none.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "common/kube/transport.h"

namespace mgpu::simulation {

// "extender-3"
std::string identity_of(int process);

class Leadership {
 public:
  // `keeps_lease`: the process believes that it leads, and has had the time to renew the Lease.
  // `refuses_objects`: as Setting::has_refused_objects.
  Leadership(bool refuses_objects, std::function<bool(int process)> keeps_lease,
             std::function<void(std::string sentence)> violate)
      : refuses_objects_(refuses_objects),
        keeps_lease_(std::move(keeps_lease)),
        violate_(std::move(violate)) {}

  // The API server has served a request of the process.
  void on_served(int process, const kube::Request& request, const kube::Response& response);
  // The process has answered a verb.
  void on_answered(int process, const std::string& verb, int status);
  // The process decides.
  void note_deciding(int process);
  // Who has the Lease.
  int holder() const { return holder_; }

 private:
  void note_holder(int process);
  void check_bind(int process, const kube::Request& request, bool bound);

  const bool refuses_objects_;
  const std::function<bool(int)> keeps_lease_;
  const std::function<void(std::string)> violate_;
  int holder_ = 0;
  // Of each process that has had the Lease: 1, 2, ... A process may take it twice: if it gets no
  // answer to its first write, it does not lead, and goes on as a candidate.
  std::map<int, int> terms_;
  int last_term_ = 0;
  std::set<int> deciders_;
  int deciding_term_ = 0;  // the latest one of a process that has decided
  int decider_ = 0;        // that process
};

}  // namespace mgpu::simulation
