#include "bench/gpu/nvidia_smi.h"

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <charconv>
#include <chrono>
#include <sstream>
#include <utility>

#include "common/base/process.h"

namespace mgpu::gpu_trial {
namespace {

using Tree = boost::property_tree::ptree;

// There are about 20 KiB for a card, and more if many processes run.
constexpr std::size_t kReportBytesMax = std::size_t{8} << 20;
// Without a persistence daemon every card must be initialized first.
constexpr std::chrono::seconds kTimeout{30};

void add_fields(const Tree& tree, const std::string& path, SmiCard& card) {
  for (const auto& [name, child] : tree) {
    const std::string below = path.empty() ? name : path + "." + name;
    if (child.empty()) card.fields[below] = child.data();
    add_fields(child, below, card);
  }
}

SmiProcess process_of(const Tree& tree) {
  SmiProcess process;
  const auto pid = tree.get("pid", std::string());
  std::from_chars(pid.data(), pid.data() + pid.size(), process.pid);
  process.type = tree.get("type", std::string());
  process.name = tree.get("process_name", std::string());
  process.memory = tree.get("used_memory", std::string());
  return process;
}

SmiCard card_of(const Tree& tree) {
  SmiCard card;
  add_fields(tree, "", card);
  if (const auto processes = tree.get_child_optional("processes")) {
    for (const auto& [name, process] : *processes) {
      if (name == "process_info") card.processes.push_back(process_of(process));
    }
  }
  return card;
}

}  // namespace

std::string SmiCard::field(const std::string& path) const {
  const auto found = fields.find(path);
  return found == fields.end() ? "" : found->second;
}

Result<SmiReport> parse_smi_report(const std::string& xml) {
  try {
    Tree tree;
    std::istringstream text(xml);
    boost::property_tree::read_xml(text, tree, boost::property_tree::xml_parser::trim_whitespace);
    const Tree& log = tree.get_child("nvidia_smi_log");
    SmiReport report{.driver = log.get("driver_version", std::string()),
                     .cuda = log.get("cuda_version", std::string())};
    for (const auto& [name, child] : log) {
      if (name == "gpu") report.cards.emplace(child.get("uuid", std::string()), card_of(child));
    }
    return report;
  } catch (const boost::property_tree::ptree_error& problem) {
    return error(std::string("nvidia-smi printed no report: ") + problem.what());
  }
}

Result<SmiReport> query_nvidia_smi(const Trial& trial) {
  const auto xml =
      run_with_input({trial.nvidia_smi, {"-q", "-x"}, {}}, "", kReportBytesMax, kTimeout);
  if (!xml) return error("nvidia-smi -q -x failed: " + xml.error().message);
  return parse_smi_report(*xml);
}

std::optional<std::int64_t> amount_in(std::string_view text, std::string_view unit) {
  std::int64_t amount = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, amount);
  const std::string_view rest(stop, static_cast<std::size_t>(end - stop));
  const bool fits = code == std::errc() && rest.starts_with(' ') && rest.substr(1) == unit;
  return fits ? std::optional(amount) : std::nullopt;
}

std::string value_of_card(const std::string& lines, const std::string& uuid) {
  std::istringstream text(lines);
  const std::string begin = uuid + ", ";
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(begin)) return line.substr(begin.size());
  }
  return "";
}

Result<std::string> query_compute_capability(const Trial& trial, const std::string& uuid) {
  const auto lines = run_with_input(
      {trial.nvidia_smi, {"--query-gpu=uuid,compute_cap", "--format=csv,noheader"}, {}}, "",
      kReportBytesMax, kTimeout);
  if (!lines) return error("nvidia-smi --query-gpu failed: " + lines.error().message);
  const std::string value = value_of_card(*lines, uuid);
  if (value.empty()) return error("nvidia-smi --query-gpu does not list the card");
  return value;
}

}  // namespace mgpu::gpu_trial
