#include "bench/latency/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace mgpu::bench {

std::string table_head() {
  return fmt::format(
      "{:<9} {:>6} {:<10} {:<19} {:<9} {:>2} {:>10} {:>10} {:>10} {:>8} {:>9} {:>9} {:>7}",
      "server", "nodes", "verb", "form", "load", "th", "p50 us", "p99 us", "p99.9 us", "requests",
      "bytes in", "out", "x echo");
}

std::string table_line(const Row& row) {
  return fmt::format(
      "{:<9} {:>6} {:<10} {:<19} {:<9} {:>2} {:>10.1f} {:>10.1f} {:>10.1f} {:>8} {:>9} {:>9} "
      "{:>7.2f}",
      row.name, row.nodes, row.verb, row.form, row.load, row.threads, row.p50_us, row.p99_us,
      row.p999_us, row.requests, row.bytes_in, row.bytes_out, row.ratio_to_echo);
}

std::string to_json(const std::vector<Row>& rows) {
  auto all = nlohmann::ordered_json::array();
  for (const Row& row : rows)
    all.push_back({{"name", row.name},
                   {"nodes", row.nodes},
                   {"verb", row.verb},
                   {"form", row.form},
                   {"load", row.load},
                   {"threads", row.threads},
                   {"p50_us", row.p50_us},
                   {"p99_us", row.p99_us},
                   {"p999_us", row.p999_us},
                   {"requests", row.requests},
                   {"bytes_in", row.bytes_in},
                   {"bytes_out", row.bytes_out},
                   {"ratio_to_echo", row.ratio_to_echo}});
  return all.dump(1) + "\n";
}

}  // namespace mgpu::bench
