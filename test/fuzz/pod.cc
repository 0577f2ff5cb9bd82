// Feeds a Pod to the reader of objects and to those of requests and claims.
//
// Properties: an unknown member in front of all others changes nothing; a request is within the
// limits of the contract; no placement of a claim holds more of a card than most_of_one_card() has;
// the annotations of a placement are read as equal.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/contract.h"
#include "common/contract/gpu_request.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/objects/object_protobuf.h"
#include "extender/ledger/claim.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

using extender::Claim;

const Contract& contract() {
  static const Contract kContract = *Contract::for_domain(kDefaultResourceDomain);
  return kContract;
}

std::string text_of(const kube::StringMap& map) {
  std::string text;
  for (const auto& [key, value] : map) text += key + "=" + value + ";";
  return text;
}

std::string text_of(const std::vector<kube::Container>& containers) {
  std::string text;
  for (const kube::Container& container : containers) {
    text += container.name + ":" + text_of(container.limits) + text_of(container.requests) +
            (container.restart_always ? "always" : "") + (container.host_port ? "port" : "") + "|";
  }
  return text;
}

std::string text_of(const kube::Pod& pod) {
  std::string text = pod.metadata.name_space + "/" + pod.metadata.name + "/" + pod.metadata.uid;
  text += text_of(pod.metadata.annotations) + text_of(pod.metadata.labels);
  text += text_of(pod.init_containers) + text_of(pod.containers) + text_of(pod.overhead);
  for (const auto& status : pod.container_statuses) text += status.name + status.id;
  return text + pod.node_name + pod.phase + pod.nominated_node + std::to_string(pod.priority) +
         (pod.constrained ? "constrained" : "");
}

// The numbers are not ones that JSON permits, and the nesting is deeper than readers of whole texts
// accept.
void expect_unknown_members_are_skipped(std::string_view input, const kube::Pod& pod) {
  const std::size_t begin = input.find('{');
  expect(begin != input.npos, "a pod is an object");
  std::string more(input.substr(0, begin + 1));
  more += "\"unknown\":" + std::string(500, '[') + "9e999" + std::string(500, ']');
  more += input.find_first_not_of(" \t\r\n", begin + 1) == input.find('}', begin) ? "" : ",";
  more += input.substr(begin + 1);
  const auto again = kube::read_pod(more);
  expect(again && text_of(*again) == text_of(pod), "an unknown member changes nothing");
}

void expect_in_limits(const GpuRequest& request) {
  expect(request.containers.size() <= kGpuContainersPerPodMax, "containers of a request");
  for (const ContainerRequest& container : request.containers) {
    expect(container.cards >= 1 && container.cards <= static_cast<int>(kCardsPerNodeMax),
           "a container has 1 to 64 cards");
    expect(container.per_card.core <= kWholeCard && !container.per_card.core.zero(),
           "a share has 1 to 100 percent");
    expect(container.per_card.memory <= MiB(kCardMemoryMiBMax), "a share has up to 16 TiB");
    expect(container.whole == container.per_card.memory.zero(), "whole cards have no memory");
    expect(!container.whole || container.per_card.core == kWholeCard, "whole cards have all cores");
    expect(container.name.size() <= kContainerNameMax, "a name can be in an annotation key");
  }
}

void expect_no_more_than_the_most(const kube::Pod& pod, const GpuRequest& request) {
  const auto most = most_of_one_card(pod, contract());
  expect(most.has_value(), "amounts that are a request have a most");
  const std::size_t count = request.containers.size();
  const ContainerSet all = count == 64 ? ~ContainerSet{0} : (ContainerSet{1} << count) - 1;
  const Share largest{kWholeCard, MiB(kCardMemoryMiBMax)};
  expect(hold_on(largest, request.containers, all).fits_in(*most),
         "no placement holds more of a card than most_of_one_card()");
}

void expect_placement_reads_back(kube::Pod pod, const Claim& claim) {
  std::map<std::string, std::vector<CardIndex>> cards;
  for (std::size_t i = 0; i < claim.request.containers.size(); ++i) {
    cards[claim.request.containers[i].name] = claim.placement->cards_of[i];
  }
  pod.metadata.annotations.clear();
  for (const auto& [key, value] : placement_annotations(contract(), cards)) {
    pod.metadata.annotations[key] = value;
  }
  const auto read = read_placement(pod, claim.request, contract());
  expect(read && *read == *claim.placement, "the annotations of a placement are read as equal");
}

void expect_claim(kube::Pod pod) {
  if (pod.node_name.empty()) pod.node_name = "n1";
  const auto claim = extender::claim_of(pod, contract());
  if (!claim) return;
  expect_in_limits(claim->request);
  expect(claim->placement || claim->drift, "a drift says what is absent");
  if (claim->drift) expect_sentence(claim->drift_detail);
  if (claim->placement) {
    expect_placement_reads_back(pod, *claim);
    expect_no_more_than_the_most(pod, claim->request);
  }
}

}  // namespace

MGPU_FUZZER(pod) {
  const bool protobuf = !input.starts_with('{');
  const auto pod = protobuf ? kube::read_pod_protobuf(input) : kube::read_pod(input);
  if (!pod) return expect_sentence(pod.error().message);
  if (!protobuf) expect_unknown_members_are_skipped(input, *pod);
  const auto request = read_request(*pod, contract(), MiB(1));
  if (request) {
    expect_in_limits(*request);
    expect_no_more_than_the_most(*pod, *request);
  } else {
    expect_sentence(request.error().message);
  }
  expect_claim(*pod);
  const auto resources = extender::resources_of(*pod);
  expect(resources.cpu.value() <= std::int64_t{1} << 40, "an amount is at most 2^40");
  expect(resources.memory.value() <= std::int64_t{1} << 40, "an amount is at most 2^40");
}

}  // namespace mgpu::fuzz
