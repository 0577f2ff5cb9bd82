// fake_gpu_machine SCENARIO FILE             makes a fake machine, for libraries that find it in
//                                            MGPU_FAKE_GPU
// fake_gpu_machine --show FILE               prints its cards and processes
// fake_gpu_machine --change FILE UUID YAML   changes a card of it, as change_card() of scenario.h:
//                                            '{health: {lost: true}, xids: [79]}'
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "test/gpu/machine.h"
#include "test/gpu/scenario.h"

namespace mgpu::fake_gpu {
namespace {

int fail(const std::string& sentence, int status = 1) {
  std::cerr << "fake_gpu_machine: " << sentence << "\n";
  return status;
}

double mib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kMiB);
}

int show(const std::string& path) {
  std::string why;
  const auto machine = Machine::open(path, why);
  if (machine == nullptr) return fail(why);
  if (machine->is_virtual()) {
    std::cout << fmt::format("{:.9f} s\n", static_cast<double>(machine->clock()) / 1e9);
  }
  for (int i = 0; i < machine->card_count(); ++i) {
    const CardState& card = machine->card(i);
    std::cout << fmt::format("{} {} {}: {:.4f} MiB free of {:.4f}\n", i, card.uuid, card.model,
                             mib(machine->free(i)), mib(machine->total(i)));
    for (const ProcessUse& use : machine->processes(i)) {
      std::cout << fmt::format("  process {}: {:.4f} MiB\n", use.pid, mib(use.bytes));
    }
  }
  return 0;
}

int create(const std::string& scenario, const std::string& path) {
  std::ifstream file(scenario);
  if (!file) return fail("cannot read the scenario \"" + scenario + "\"");
  std::string text(kScenarioBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kScenarioBytesMax) {
    return fail(
        fmt::format("the scenario \"{}\" must have at most {} bytes", scenario, kScenarioBytesMax));
  }
  const auto created = create_machine(text, path);
  return created ? 0 : fail(created.error().message);
}

}  // namespace
}  // namespace mgpu::fake_gpu

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() == 4 && words[0] == "--change") {
    const auto changed = mgpu::fake_gpu::change_card(words[3], words[1], words[2]);
    return changed ? 0 : mgpu::fake_gpu::fail(changed.error().message);
  }
  if (words.size() != 2) {
    return mgpu::fake_gpu::fail(
        "want SCENARIO and FILE, or --show and FILE, or --change, FILE, UUID and YAML", 2);
  }
  return words[0] == "--show" ? mgpu::fake_gpu::show(words[1])
                              : mgpu::fake_gpu::create(words[0], words[1]);
}
