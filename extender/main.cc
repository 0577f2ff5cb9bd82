// mgpu-extender: the extender over libcurl, until SIGTERM or SIGINT.
#include <malloc.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/program/open_files.h"
#include "common/program/program.h"
#include "extender/extender.h"
#include "extender/flags.h"

namespace {

mgpu::Result<void> serve(const mgpu::extender::Flags& flags, std::size_t open_files,
                         mgpu::kube::Transport& transport, const mgpu::Connect& connect) {
  auto options = mgpu::extender::options_of(flags);
  if (!options) return options.error();
  mgpu::extender::limit_connections(*options, open_files);
  const std::string metrics_address = options->service.http.address;
  // Another process binds pods now. This one must not do so again.
  std::promise<std::string> lost;
  std::future<std::string> why = lost.get_future();
  options->on_lease_lost = [&lost](const std::string& sentence) {
    lost.set_value(sentence);
    mgpu::request_shutdown();
  };
  mgpu::kube::Transport* for_election = nullptr;
  if (options->election) {
    const auto connected = connect();
    if (!connected) return connected.error();
    for_election = *connected;
  }
  auto extender = mgpu::extender::Extender::start(std::move(*options), transport, for_election);
  if (!extender) return extender.error();
  mgpu::log_info("listening; ready once it holds the lease, and nodes and pods have been listed",
                 {{"address", flags.listen_address},
                  {"port", std::to_string((*extender)->port())},
                  {"metrics_address", metrics_address},
                  {"metrics_port", std::to_string((*extender)->service_port())}});
  mgpu::wait_for_shutdown();
  (*extender)->drain();
  if (why.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    return mgpu::error(why.get());
  }
  return {};
}

// Large blocks, such as the objects of a relist, are returned to the system when they are freed. By
// default malloc stops doing so for sizes that it has seen freed once.
void return_large_blocks() {
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
}

}  // namespace

int main(int argc, char** argv) {
  return_large_blocks();
  const std::size_t open_files = mgpu::raise_open_files_limit();
  mgpu::extender::Flags flags;
  mgpu::Options options("mgpu-extender", "Places pods that share GPUs, for kube-scheduler.",
                        "MGPU_EXTENDER");
  mgpu::extender::add_flags(options, flags);
  return mgpu::run_program(
      argc, argv, "mgpu-extender", options, flags,
      {.log_flags = [&] { mgpu::extender::log_flags(flags); },
       .serve =
           [&](mgpu::kube::Transport& transport, const mgpu::Connect& connect) {
             return serve(flags, open_files, transport, connect);
           }});
}
