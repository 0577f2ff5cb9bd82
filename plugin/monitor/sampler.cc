#include "plugin/monitor/sampler.h"

#include <charconv>
#include <set>

#include "common/base/check.h"
#include "common/base/files.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

// Field 22 of /proc/<pid>/stat. Field 2, the program's name in parentheses, may have any
// characters.
std::optional<std::uint64_t> read_start_time(std::string_view stat) {
  constexpr int kFieldsBefore = 20;  // from the parenthesis to field 22, each after a space
  std::size_t at = stat.rfind(')');
  for (int i = 0; i < kFieldsBefore && at != std::string_view::npos; ++i) {
    at = stat.find(' ', at + 1);
  }
  if (at == std::string_view::npos) return std::nullopt;
  std::uint64_t start = 0;
  const char* const end = stat.data() + stat.size();
  const auto [rest, code] = std::from_chars(stat.data() + at + 1, end, start);
  if (code != std::errc() || (rest != end && *rest != ' ' && *rest != '\n')) return std::nullopt;
  return start;
}

// Field 2, without its parentheses.
std::string read_program(std::string_view stat) {
  const std::size_t from = stat.find('(');
  const std::size_t to = stat.rfind(')');
  if (from == stat.npos || to == stat.npos || to <= from) return {};
  return std::string(stat.substr(from + 1, to - from - 1));
}

}  // namespace

std::optional<ProcessSampler::Stat> ProcessSampler::stat_of(std::int64_t pid) const {
  const auto text = read_file(proc_root_ + "/" + std::to_string(pid) + "/stat", kProcFileBytesMax);
  const auto start = text ? read_start_time(*text) : std::nullopt;
  if (!start) return std::nullopt;
  return Stat{*start, read_program(*text)};
}

std::optional<ProcessSample> ProcessSampler::sample_one(const CardProcess& process) {
  const auto stat = stat_of(process.pid);
  if (!stat) return std::nullopt;
  const std::uint64_t start = stat->start_time;
  ProcessSample sample{process.card, process.pid,         process.memory, process.sm_percent,
                       {},           process.without_mps, stat->program,  process.client};
  const auto known = known_.find(process.pid);
  if (known != known_.end() && known->second.start_time == start) {
    sample.container = known->second.container;
    return sample;
  }
  const auto text =
      read_file(proc_root_ + "/" + std::to_string(process.pid) + "/cgroup", kProcFileBytesMax);
  // The pid may have been reused between the two reads.
  const auto again = stat_of(process.pid);
  if (!text || !again || again->start_time != start) return std::nullopt;
  sample.container = container_of(*text);
  if (sample.container) known_.insert_or_assign(process.pid, Known{start, *sample.container});
  return sample;
}

std::vector<ProcessSample> ProcessSampler::sample(const std::vector<CardProcess>& processes) {
  std::vector<ProcessSample> samples;
  std::set<std::int64_t> running;
  for (const CardProcess& process : processes) {
    auto one = process.pid > 0 ? sample_one(process) : std::nullopt;
    if (!one) continue;
    running.insert(process.pid);
    samples.push_back(*std::move(one));
  }
  std::erase_if(known_, [&](const auto& known) { return !running.contains(known.first); });
  MGPU_CHECK(samples.size() <= processes.size(), "a process is sampled at most once on a card");
  MGPU_CHECK(known_.size() <= running.size(), "only processes that run are known");
  return samples;
}

}  // namespace mgpu::plugin
