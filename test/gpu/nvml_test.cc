// NVML and CUDA of one machine agree at each moment, also about other processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <vector>

#include "plugin/cards/nvml/nvml_library.h"
#include "plugin/share/page.h"
#include "test/gpu/driver_under_test.h"

namespace mgpu::fake_gpu {
namespace {

namespace nvml = plugin::nvml;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// NVML as the device plugin loads it.
class Nvml {
 public:
  explicit Nvml(unsigned card = 0) {
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    auto opened = nvml::Library::open({folder / "fake-gpu/libnvidia-ml.so.1"});
    EXPECT_TRUE(opened) << opened.error().message;
    library_ = std::move(*opened);
    EXPECT_EQ(f().init(), nvml::kOk);
    EXPECT_EQ(f().device_by_index(card, &device), nvml::kOk);
  }
  ~Nvml() { EXPECT_EQ(f().shutdown(), nvml::kOk); }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  Nvml(Nvml&&) = delete;
  Nvml& operator=(Nvml&&) = delete;

  const nvml::Functions& f() const { return library_->functions(); }

  std::vector<nvml::ProcessInfo> processes() const {
    EXPECT_EQ(f().compute.entry_bytes, sizeof(nvml::ProcessInfo));
    std::vector<nvml::ProcessInfo> entries(8);
    auto count = static_cast<unsigned>(entries.size());
    EXPECT_EQ(f().compute.get(device, &count, entries.data()), nvml::kOk);
    entries.resize(count);
    return entries;
  }

  nvml::Device device = nullptr;

 private:
  std::shared_ptr<const nvml::Library> library_;
};

auto process(pid_t pid, double mib) {
  return AllOf(Field(&nvml::ProcessInfo::pid, static_cast<std::uint32_t>(pid)),
               Field(&nvml::ProcessInfo::used, static_cast<std::uint64_t>(mib * kMiB)));
}

TEST_F(DriverTest, NvmlTellsOfTheScenario) {
  EXPECT_TRUE(create_machine(
      "driver: {release: 570.1, cuda: 12080}\n"
      "cards: [{uuid: GPU-1}, {uuid: GPU-2, model: A, computeCapability: 8.0, xids: [79]}]",
      machine()));
  const Nvml nvml(1);
  char text[nvml::kTextBytes] = {};
  const auto says = [&](int code) { return code == nvml::kOk ? std::string(text) : "?"; };
  EXPECT_EQ(says(nvml.f().uuid(nvml.device, text, sizeof text)), "GPU-2");
  EXPECT_EQ(says(nvml.f().name(nvml.device, text, sizeof text)), "A");
  EXPECT_EQ(says(nvml.f().driver_version(text, sizeof text)), "570.1");
  EXPECT_EQ(says(nvml.f().nvml_version(text, sizeof text)), "12.570.1");
  EXPECT_EQ(nvml.f().uuid(nvml.device, text, 3), nvml::kInsufficientSize);
  unsigned number = 0;
  EXPECT_EQ(nvml.f().minor_number(nvml.device, &number), nvml::kOk);
  EXPECT_EQ(number, 1U);
  nvml::EventSet set = nullptr;
  nvml::Event event{};
  EXPECT_EQ(nvml.f().event_set_create(&set), nvml::kOk);
  EXPECT_EQ(nvml.f().register_events(nvml.device, nvml::kEventXid, set), nvml::kOk);
  EXPECT_EQ(nvml.f().event_set_wait(set, &event, 0), nvml::kOk);
  EXPECT_EQ(event.value, 79U);
  EXPECT_EQ(nvml.f().event_set_wait(set, &event, 0), nvml::kTimeout);
  EXPECT_EQ(nvml.f().event_set_free(set), nvml::kOk);
  nvml::Device none = nullptr;
  EXPECT_EQ(nvml.f().device_by_index(2, &none), nvml::kInvalidArgument);
  EXPECT_EQ(nvml.f().uuid(none, text, sizeof text), nvml::kInvalidArgument);
}

// What CUDA and NVML say of card 0.
void expect_agreement(const Driver& driver, const Nvml& nvml) {
  nvml::Memory first{};
  nvml::MemoryV2 second{};
  second.version = nvml::kMemoryV2Version;
  EXPECT_EQ(nvml.f().memory(nvml.device, &first), nvml::kOk);
  EXPECT_EQ(nvml.f().memory_v2(nvml.device, &second), nvml::kOk);
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(driver.call("cuMemGetInfo_v2", &free, &total), kSuccess);
  EXPECT_EQ(first.free, free);
  EXPECT_EQ(first.used + first.free, first.total);
  EXPECT_EQ(second.free, free);
  EXPECT_EQ(second.used, total - free);
  EXPECT_EQ(second.reserved + second.used, first.used);
  std::uint64_t listed = 0;
  for (const nvml::ProcessInfo& process : nvml.processes()) listed += process.used;
  EXPECT_LE(listed, second.used);
}

TEST_F(DriverTest, NvmlAgreesWithCudaAtEachMoment) {
  in_process([] {
    const Driver driver;
    const Nvml nvml;
    std::mt19937 random(11);
    std::vector<std::pair<Pointer, bool>> held;
    for (int i = 0; i < 300; ++i) {
      const bool pooled = random() % 2 == 0;
      Pointer pointer = 0;
      if (random() % 3 == 0 && !held.empty()) {
        const auto [freed, in_order] = held.back();
        held.pop_back();
        EXPECT_EQ(
            in_order ? driver.call("cuMemFreeAsync", freed, Handle{}) : driver.free_memory(freed),
            kSuccess);
        if (random() % 4 == 0) driver.synchronize();
      } else if (pooled) {
        driver.call("cuMemAllocAsync", &pointer, std::size_t{random() % (200 * kMiB) + 1},
                    Handle{});
      } else {
        pointer = driver.allocate(random() % (300 * kMiB) + 1);
      }
      if (pointer != 0) held.emplace_back(pointer, pooled);
      expect_agreement(driver, nvml);
    }
  });
}

TEST_F(DriverTest, NvmlListsProcessesUntilTheyEnd) {
  const Nvml nvml;
  EXPECT_THAT(nvml.processes(), IsEmpty());
  ChildProcess one([](const ChildProcess::Pause& pause) {
    const Driver driver;
    EXPECT_NE(driver.allocate(100 * kMiB), 0U);
    pause();
  });
  EXPECT_TRUE(one.wait_for_pause());
  EXPECT_THAT(nvml.processes(), ElementsAre(process(one.pid(), 618)));
  in_process([] {
    const Driver driver;
    const Nvml mine;
    EXPECT_THAT(mine.processes(), testing::SizeIs(2));
    unsigned count = 1;
    nvml::ProcessInfo entry{};
    EXPECT_EQ(mine.f().compute.get(mine.device, &count, &entry), nvml::kInsufficientSize);
    EXPECT_EQ(count, 2U);
    expect_agreement(driver, mine);
  });
  EXPECT_THAT(nvml.processes(), UnorderedElementsAre(process(one.pid(), 618)));
  one.kill();
  EXPECT_THAT(nvml.processes(), IsEmpty());
  nvml::Memory memory{};
  EXPECT_EQ(nvml.f().memory(nvml.device, &memory), nvml::kOk);
  EXPECT_NEAR(static_cast<double>(memory.used) / kMiB, 618.3, 0.1) << "what the driver reserves";
}

// In a container with a part of a card. The loader takes the first library of a name that is
// loaded.
TEST_F(DriverTest, ProgramsThatHaveLoadedCudaFindTheNvmlOfTheirShare) {
  const auto libraries =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake-gpu/share";
  char folder[] = "/dev/shm/mgpu-nvml-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  for (const char digit : {'1', '2'}) {
    const std::string uuid = std::string("GPU-6d677075-0000-4000-8000-00000000000") + digit;
    const std::string pages = std::string(folder) + "/share/" + uuid;
    std::filesystem::create_directories(pages);
    share::PageValues values{.limit_bytes = 4096 * kMiB, .context_bytes = 528 * kMiB};
    ASSERT_TRUE(share::read_uuid(uuid.c_str(), values.uuid));
    ASSERT_EQ(share::make_pages(pages.c_str(), values), nullptr);
  }
  in_process([&] {
    EXPECT_EQ(::chdir(folder), 0);
    // As in a program of its own: other tests have loaded the machine's own NVML.
    Lmid_t program = LM_ID_BASE;
    void* const cuda = ::dlmopen(LM_ID_NEWLM, (libraries / "libcuda.so.1").c_str(), RTLD_NOW);
    ASSERT_NE(cuda, nullptr) << ::dlerror();
    EXPECT_EQ(reinterpret_cast<int (*)(unsigned)>(::dlsym(cuda, "cuInit"))(0), kSuccess);
    EXPECT_EQ(::dlinfo(cuda, RTLD_DI_LMID, &program), 0);
    void* const by_name = ::dlmopen(program, "libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
    const std::string path = libraries / "libnvidia-ml.so.1";
    void* const by_path = ::dlmopen(program, path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    EXPECT_NE(by_name, nullptr);
    EXPECT_EQ(by_name, by_path);
  });
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mgpu::fake_gpu
