// The checks of `kubectl mgpu doctor`: tables of rules, and what applies them to the facts. Pure.
// test/extender/kubectl/doctor_remedies_test.cc does what each remedy says, in a situation in which
// it is printed.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "extender/kubectl/doctor/facts.h"
#include "extender/kubectl/doctor/finding.h"

namespace mgpu::kubectl {

enum class Act {
  kNone,  // nothing has to be done
  // A command, up to the first comma. NODE, POD and NAMESPACE are those of the object of the
  // finding.
  kRun,
  kChange,  // a change that the sentence names, and that takes more than a command
  kLook,    // the place that shows the cause, which the doctor does not know
};

struct Remedy {
  Act act = Act::kNone;
  const char* text = "";  // {0}, {1}, ... stand for the words of the match
};

// What several rules look up, by the name of the node.
struct Index {
  explicit Index(const Facts& facts);

  std::map<std::string, const ProgramPod*> plugins;
  // The indices of its cards; nothing if it has no list of cards that can be read.
  std::map<std::string, std::optional<std::set<std::int32_t>>> cards;
};

// What a rule is applied to: the installation, or also one replica, node or bound pod of it.
struct Subject {
  const Facts& facts;
  const Index& index;
  const Findings& findings;  // of this check, so far
  std::string name{};        // the object of its findings
  const ReplicaFacts* replica = nullptr;
  const CheckedNode* node = nullptr;  // with cards
  const GpuPod* pod = nullptr;
};

// One finding of a rule.
struct Match {
  std::vector<std::string> words{};    // of the sentence and of the remedy
  std::vector<std::string> objects{};  // if empty, the name of the subject
  std::optional<Level> level{};        // if not that of the rule
  std::optional<Remedy> remedy{};      // if not that of the rule
};

// All findings of a rule. The functions change each of them.
struct Matches : std::vector<Match> {
  Matches about(std::vector<std::string> objects) &&;
  Matches as(Level level) &&;
  Matches with(Remedy remedy) &&;
};

using At = const Subject&;

struct Weight {
  constexpr Weight(Level of, bool is_last = false) : level(of), ends(is_last) {}
  Level level;  // a rule of level kOk counts if the check has found nothing else
  bool ends;    // its finding explains what the rules below it would find of the subject
};
constexpr Weight last(Level level) {
  return {level, true};
}

struct Rule {
  Weight weight;
  const char* sentence;
  Remedy remedy;
  Matches (*find)(At at);
};

enum class Each { kInstallation, kReplica, kNode, kBoundPod };

struct Rules {
  Each each;
  std::span<const Rule> rules;
};

struct Check {
  const char* name;
  std::vector<Rules> tables;
  bool (*applies)(const Facts&) = [](const Facts&) { return true; };
};

// Returns the checks in the order of the output.
const std::vector<Check>& all_checks();
Findings run_check(const Check& check, const Facts& facts, const Index& index);
// What several checks could not read is reported once.
std::vector<CheckReport> run_checks(const Facts& facts);
// What is advised beside the remedies of the rules.
std::vector<Remedy> other_remedies();

std::vector<Check> cluster_checks();
std::vector<Check> extender_checks();
std::vector<Check> scheduler_checks();
std::vector<Check> node_checks();
std::vector<Check> pod_checks();

// --- for the rules -------------------------------------------------------------------------------

inline constexpr Remedy kNothing{};
constexpr Remedy to_run(const char* text) {
  return {Act::kRun, text};
}
constexpr Remedy to_change(const char* text) {
  return {Act::kChange, text};
}
constexpr Remedy to_look(const char* text) {
  return {Act::kLook, text};
}

inline std::string word(std::string_view text) {
  return std::string(text);
}
std::string word(std::integral auto number) {
  return std::to_string(number);
}

// One finding, or none.
template <class... Words>
Matches when(bool holds, const Words&... words) {
  Matches matches;
  if (holds) matches.push_back({.words = {word(words)...}});
  return matches;
}

inline Matches always(At) {
  return when(true);
}

// What `find` returns for each of `some`.
template <class Some>
Matches each(const Some& some, const auto& find) {
  Matches all;
  for (const auto& one : some) std::ranges::move(find(one), std::back_inserter(all));
  return all;
}

inline constexpr Remedy kOtherUser{Act::kChange, "use a context whose user has this right"};
inline constexpr Remedy kTryAgain{Act::kLook,
                                  "try again; if it fails again, see the log of the server"};
inline constexpr Remedy kSeeExtender{Act::kLook, "see the findings about the extender"};
inline constexpr Remedy kSeePluginLog{Act::kLook,
                                      "the device plugin writes it again within a minute; if not, "
                                      "see its log"};

// A fact that is not known, with the reason.
template <class T>
Matches unknown(const Fact<T>& fact) {
  const bool not_asked = fact.missing() == Missing::kNotAsked;
  auto matches =
      when(!fact.known(), fact.problem().empty() ? "this was not asked" : fact.problem());
  if (fact.missing() == Missing::kForbidden) return std::move(matches).with(kOtherUser);
  return not_asked ? std::move(matches).with({}) : matches;
}

// The values of a fact; none if it is not known.
template <class T>
const T& items(const Fact<T>& fact) {
  static const T none;
  return fact.known() ? fact.value() : none;
}

// The rule of a fact without which the check goes on, or ends.
template <auto kFact>
constexpr Rule needs(Weight weight = last(Level::kUnknown)) {
  return {weight, "{0}", kTryAgain, [](At at) { return unknown(at.facts.*kFact); }};
}

// Whether the node has cards, by its labels and annotations.
bool has_cards(const CheckedNode& node, const Contract& contract);

// Whether the pod has annotations that say which cards it has.
bool has_placement_annotation(const kube::Pod& pod, const Contract& contract);

}  // namespace mgpu::kubectl
