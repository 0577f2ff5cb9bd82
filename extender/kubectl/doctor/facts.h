// The facts about an installation that `kubectl mgpu doctor` checks: collect.h fills them, checks.h
// compares them with what is expected. Values only.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"
#include "extender/kubectl/doctor/metrics_text.h"
#include "extender/kubectl/doctor/version_number.h"
#include "extender/kubectl/fact.h"

namespace mgpu::kubectl {

using Time = std::chrono::sys_seconds;

// A pod of mgpu itself.
struct ProgramPod {
  PodRef ref;
  std::string name;       // label app.kubernetes.io/name
  std::string component;  // label app.kubernetes.io/component
  std::string node;
  std::string version;  // label app.kubernetes.io/version, or the tag of the image; may be empty
  std::string address;  // status.podIP
  std::string service_account;
  std::string phase;
  std::string waiting;  // the reason of the first container that waits, such as CrashLoopBackOff
  std::vector<std::string> arguments;  // of the first container
  bool ready = false;
  bool being_deleted = false;

  // The chart has one name for all, and distinguishes the programs by their component.
  bool is_extender() const { return name == "mgpu-extender" || component == "extender"; }
  bool is_plugin() const { return name == "mgpu-device-plugin" || component == "device-plugin"; }
  // "CrashLoopBackOff", "phase Pending"
  std::string state() const { return waiting.empty() ? "phase " + phase : waiting; }
  bool has_ended() const { return phase == "Succeeded" || phase == "Failed"; }
};

// What has made the objects of the installation, and can make them again.
struct Installer {
  std::string release{};  // of helm; empty: kubectl apply
};

struct LeaseFacts {
  std::string holder{};  // empty: no process holds it
  std::optional<std::int32_t> duration_seconds;
  std::optional<Time> renewed;
};

// The ready addresses of an EndpointSlice.
struct SliceFacts {
  std::vector<std::string> addresses;
};

// A configuration of kube-scheduler in a ConfigMap.
struct SchedulerConfig {
  std::string object;                // namespace/name of the ConfigMap
  std::vector<std::string> binders;  // the addresses of the extenders with a bindVerb
};

struct DeviceClass {
  std::string name;
  std::string resource;  // spec.extendedResourceName; may be empty
};

struct PolicyBinding {
  std::string policy;
  bool denies = false;  // validationActions has Deny
};

struct CheckedNode {
  std::string name;
  kube::StringMap labels;
  kube::StringMap annotations;
  kube::StringMap capacity;
  kube::StringMap allocatable;
  std::vector<kube::Condition> conditions;
  std::string kubelet_version;
};

// A pod that requests cards, or has the annotations of a pod with cards.
struct GpuPod {
  kube::Pod pod;
  std::optional<Time> created;
  std::string unscheduled_reason;  // of the condition PodScheduled, if that is False
  std::string unscheduled_message;
  std::vector<std::string> gates{};  // schedulingGates
};

// A right of a service account of mgpu.
struct Right {
  std::string account;      // "kube-system/mgpu-extender"
  std::string description;  // "create pods/binding"
  bool allowed = false;
};

struct Drifting {
  PodRef pod;
  std::string node;
  std::string kind;  // "ChangedAnnotations"
  std::string detail;
};

struct InspectedCluster {
  std::int32_t cards_overfull = 0;
  std::vector<Drifting> drift;  // the extender limits the list
};

struct Readiness {
  bool ready = false;
  std::vector<std::string> waiting_for;
  std::vector<std::string> without;                // what it is ready without
  std::string api_server;                          // "answers", "no answer for 12 s"
  std::map<std::string, std::int64_t> unreadable;  // objects that were skipped, by collection
};

// What one extender reports on its inspection listener.
struct ReplicaFacts {
  std::string name;  // of the pod, or the URL
  Fact<std::string> version;
  Fact<Readiness> readiness;
  Fact<MetricSamples> metrics;
  Fact<InspectedCluster> cluster;
};

// The feature gates of one kubelet that are set in its configuration.
struct KubeletGates {
  std::string node;
  std::map<std::string, bool> gates;
};

struct Facts {
  std::string cli_version;
  Contract contract;
  std::string name_space;              // of the installation; empty: it is found
  bool found_here = false;             // it has pods or the Lease of mgpu
  std::vector<std::string> elsewhere;  // other namespaces with an installation
  // Whether pods with a service account of this namespace are trusted with the user's token.
  bool takes_tokens = false;
  Fact<Installer> installer;
  std::string lease_name;
  std::string service;        // that kube-scheduler calls; its EndpointSlice is the leader's
  std::string node_selector;  // empty: all nodes
  Time now{};                 // by the clock of the API server, if that is known

  Fact<Version> server;
  // The clock of the API server minus the one of this machine.
  std::optional<std::chrono::seconds> clock_difference;
  Fact<std::vector<ProgramPod>> extender_pods;
  Fact<std::vector<ProgramPod>> plugin_pods;
  Fact<LeaseFacts> lease;
  Fact<std::string> service_name;  // known if the Service exists
  Fact<std::vector<SliceFacts>> slices;
  Fact<std::set<std::string>> policies;
  Fact<std::vector<PolicyBinding>> policy_bindings;
  Fact<std::vector<CheckedNode>> nodes;
  Fact<std::vector<GpuPod>> bound_pods;
  Fact<std::vector<GpuPod>> waiting_pods;
  Fact<std::vector<Right>> rights;
  Fact<std::vector<KubeletGates>> gates;
  Fact<std::vector<SchedulerConfig>> two_binders;  // those with several
  Fact<std::vector<DeviceClass>> device_classes;
  std::vector<std::string> schedulers_of_two_binders;  // pods of it that say so when they end
  std::vector<ReplicaFacts> replicas;
  // A sentence for each object that could not be read, up to kUnreadableMax.
  std::vector<std::string> unreadable;

  // The value of a flag of the first pod of the extender, "--name=value" or "--name value". Empty
  // if it does not have the flag.
  std::string extender_flag(const std::string& flag) const;
  // mgpu is installed, and not in this namespace.
  bool is_elsewhere() const { return !found_here && !elsewhere.empty(); }
  // There is nothing of mgpu that could lack anything. helm does not install it over objects that
  // others have made.
  bool is_nowhere() const;
};

}  // namespace mgpu::kubectl
