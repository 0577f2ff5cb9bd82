#include "extender/kubectl/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "common/base/check.h"

namespace mgpu::kubectl {
namespace {

std::vector<Subject> subjects_of(Each each, const Subject& installation) {
  std::vector<Subject> subjects;
  const auto add = [&](const std::string& name) -> Subject& {
    subjects.push_back(installation);
    subjects.back().name = name;
    return subjects.back();
  };
  const Facts& facts = installation.facts;
  switch (each) {
    case Each::kInstallation:
      add("");
      break;
    case Each::kReplica:
      for (const ReplicaFacts& replica : facts.replicas) add(replica.name).replica = &replica;
      break;
    case Each::kNode:
      for (const CheckedNode& node : items(facts.nodes)) {
        if (has_cards(node, facts.contract)) add(node.name).node = &node;
      }
      break;
    case Each::kBoundPod:
      for (const GpuPod& pod : items(facts.bound_pods)) add(to_string(pod.pod.ref())).pod = &pod;
      break;
  }
  return subjects;
}

// `text` with the words in the place of their numbers.
std::string filled(std::string_view text, const std::vector<std::string>& words) {
  std::string all;
  for (; !text.empty(); text.remove_prefix(1)) {
    const bool is_word = text.size() > 2 && text[0] == '{' && text[2] == '}' &&
                         std::isdigit(static_cast<unsigned char>(text[1])) != 0;
    if (!is_word) {
      all += text[0];
      continue;
    }
    const auto number = static_cast<std::size_t>(text[1] - '0');
    MGPU_CHECK(number < words.size(), "a rule names a word that its matches do not have");
    all += words[number];
    text.remove_prefix(2);
  }
  return all;
}

// Adds `finding`, or only its objects if there is one with the same sentence.
void add_grouped(Findings& findings, Finding finding) {
  for (Finding& known : findings) {
    const bool same = known.level == finding.level && known.what == finding.what &&
                      known.remedy == finding.remedy;
    if (!same) continue;
    std::ranges::move(finding.objects, std::back_inserter(known.objects));
    return;
  }
  findings.push_back(std::move(finding));
}

// Returns whether the check is at its end.
bool apply(std::span<const Rule> rules, const Subject& subject, Findings& findings) {
  for (const Rule& rule : rules) {
    if (rule.weight.level == Level::kOk && !findings.empty()) continue;
    const Matches matches = rule.find(subject);
    for (const Match& match : matches) {
      Finding finding{match.level.value_or(rule.weight.level), filled(rule.sentence, match.words),
                      filled(match.remedy.value_or(rule.remedy).text, match.words), match.objects};
      if (finding.objects.empty() && !subject.name.empty()) finding.objects = {subject.name};
      add_grouped(findings, std::move(finding));
    }
    if (rule.weight.ends && !matches.empty()) return true;
  }
  return false;
}

}  // namespace

Index::Index(const Facts& facts) {
  for (const ProgramPod& pod : items(facts.plugin_pods)) {
    if (pod.node.empty() || pod.has_ended()) continue;
    const ProgramPod*& known = plugins[pod.node];
    if (known == nullptr || pod.ready) known = &pod;
  }
  for (const CheckedNode& node : items(facts.nodes)) {
    auto& known = cards[node.name];
    const auto read = parse_node_cards(text_or_empty(node.annotations, facts.contract.node_cards));
    if (!read) continue;
    known.emplace();
    for (const CardFacts& card : *read) known->insert(card.index.value());
  }
}

Matches Matches::about(std::vector<std::string> objects) && {
  for (Match& match : *this) match.objects = objects;
  return std::move(*this);
}

Matches Matches::as(Level level) && {
  for (Match& match : *this) match.level = level;
  return std::move(*this);
}

Matches Matches::with(Remedy remedy) && {
  for (Match& match : *this) match.remedy = remedy;
  return std::move(*this);
}

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = [] {
    std::vector<Check> all;
    for (const auto& some :
         {cluster_checks(), extender_checks(), scheduler_checks(), node_checks(), pod_checks()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return checks;
}

Findings run_check(const Check& check, const Facts& facts, const Index& index) {
  Findings findings;
  if (!check.applies(facts)) return findings;
  const Subject installation{.facts = facts, .index = index, .findings = findings};
  for (const Rules& table : check.tables) {
    for (const Subject& subject : subjects_of(table.each, installation)) {
      const bool at_end = apply(table.rules, subject, findings);
      if (at_end && table.each == Each::kInstallation) return findings;
    }
  }
  return findings;
}

std::vector<CheckReport> run_checks(const Facts& facts) {
  std::vector<CheckReport> reports;
  std::set<std::string> unknown;
  const Index index(facts);
  for (const Check& check : all_checks()) {
    // What another namespace lacks says nothing about the installation.
    if (facts.is_elsewhere() && reports.size() == 2) break;
    CheckReport report{check.name, run_check(check, facts, index)};
    std::erase_if(report.findings, [&](const Finding& finding) {
      return finding.level == Level::kUnknown && !unknown.insert(finding.what).second;
    });
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace mgpu::kubectl
