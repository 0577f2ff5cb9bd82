// The requests of a pod in the vocabularies of other projects, and their meaning in that of mgpu.
// The policies of deploy/chart/templates/_migration.tpl do the same in the API server, and
// test/golden/migration has the cases that both agree on. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"

namespace mgpu::kubectl::convert {

// What cannot be read from a pod. The defaults refuse pods that need more.
struct ConvertOptions {
  Contract contract;
  std::string scheduler = "default-scheduler";  // of the pods that are converted
  std::int64_t hami_core = 0;  // percent of each card for a container that requests memory only
  std::int64_t hami_card_memory_mib = 0;  // of a card, for nvidia.com/gpumem-percentage
  std::int64_t aliyun_core = 0;           // as hami_core
  std::int64_t aliyun_unit_mib = 1024;    // the unit of aliyun.com/gpu-mem
};

struct Container {
  std::string name;
  kube::StringMap limits;  // resource -> quantity as written
  kube::StringMap requests;

  bool operator==(const Container&) const = default;
};

struct Pod {
  kube::StringMap annotations;
  kube::StringMap labels;
  std::string scheduler;              // empty: not set
  std::vector<Container> containers;  // app containers, then init containers and sidecars
  std::size_t apps = 0;

  bool operator==(const Pod&) const = default;
};

// Rewrites the requests of `pod`. Returns a sentence for each change; none if the pod has
// no requests in other vocabularies. Errors: a request cannot be expressed, or the pod has requests
// in several vocabularies.
Result<std::vector<std::string>> rewrite(Pod& pod, const ConvertOptions& options);

// The names of all resources that are rewritten or refused.
std::vector<std::string> foreign_resources();

// What other projects and drivers call requests that are not rewritten, by the begin of the name of
// a resource, annotation or label.
struct OtherRequest {
  std::string_view begin;
  std::string_view project;
};
const std::vector<OtherRequest>& other_requests();

// The totals over all cards of a container. Without memory they are whole cards.
struct Plan {
  std::int64_t cards = 0;
  std::int64_t core = 0;
  std::int64_t memory = 0;
};

struct AnnotationPlan {
  kube::StringMap added;
  std::vector<std::string> removed;
};

// The requests of one container, without negative amounts and those over kForeignAmountMax.
struct Amounts {
  const Container& container;
  std::span<const std::int64_t> of;  // one for each name of the vocabulary, 0 if there is none

  // Whether the container has this resource, also with the amount 0.
  bool has(std::string_view name) const;
};

struct Vocabulary {
  std::vector<std::string> names;   // of resources that are rewritten
  std::vector<std::string> others;  // of resources that have no equal
  Result<AnnotationPlan> (*plan_annotations)(const Pod&, const ConvertOptions&);
  // The sentence of an error follows the name of the container.
  Result<Plan> (*plan)(const Amounts&, const Pod&, const ConvertOptions&);
};

const std::vector<Vocabulary>& vocabularies();

}  // namespace mgpu::kubectl::convert
