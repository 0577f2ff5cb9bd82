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

TEST_F(DriverTest, NvmlAndCudaAgreeOnLinks) {
  EXPECT_TRUE(
      create_machine("cards: [{uuid: GPU-1, links: X NV4 PXB}, {uuid: GPU-2, links: NV4 X SYS},"
                     "        {uuid: GPU-3, links: PXB SYS X}]",
                     machine()));
  in_process([] {
    const Driver driver;
    const Nvml first;
    const Nvml third(2);
    nvml::PciInfo place{};
    unsigned active = 0;
    for (unsigned link = 0; link < 5; ++link) {
      EXPECT_EQ(first.f().nvlink_state(first.device, link, &active), nvml::kOk);
      EXPECT_EQ(active, link < 4 ? 1U : 0U);
    }
    EXPECT_EQ(first.f().nvlink_remote_pci(first.device, 3, &place), nvml::kOk);
    int other = -1;
    char bus[32] = {};
    EXPECT_EQ(driver.call("cuDeviceGetPCIBusId", bus, static_cast<int>(sizeof bus), 1), kSuccess);
    EXPECT_EQ(place.legacy_bus_id, std::string(bus));
    EXPECT_EQ(first.f().topology_ancestor(first.device, third.device, &other), nvml::kOk);
    EXPECT_EQ(other, 20);
    const auto p2p = [&](int attribute, int peer) {
      int value = -1;
      EXPECT_EQ(driver.call("cuDeviceGetP2PAttribute", &value, attribute, 0, peer), kSuccess);
      return value;
    };
    EXPECT_EQ(p2p(2, 1), 1);
    EXPECT_EQ(p2p(3, 1), 1) << "atomics over NVLink";
    EXPECT_EQ(p2p(2, 2), 1);
    EXPECT_EQ(p2p(3, 2), 0);
    EXPECT_EQ(driver.call("cuDeviceGetP2PAttribute", &other, 2, 0, 3), kInvalidDevice);
    EXPECT_EQ(driver.call("cuDeviceGetP2PAttribute", &other, 2, 0, 0), kInvalidValue);
  });
}

// MIG User Guide, "CUDA Device Enumeration".
TEST_F(DriverTest, CudaHasTheFirstMigDeviceAndNvmlAll) {
  const std::string yaml =
      "cards: [{uuid: GPU-1}, {uuid: GPU-2, mig: true, instances: ["
      "  {uuid: MIG-6d677075-0000-4000-8000-000000000001, model: H200 MIG 1g, memoryMiB: 16384, "
      "   multiprocessors: 16, gi: 7, ci: 0},"
      "  {uuid: MIG-6d677075-0000-4000-8000-000000000002, model: H200 MIG 2g, memoryMiB: 32768, "
      "   gi: 8, ci: 1}]}]";
  EXPECT_TRUE(create_machine(yaml, machine()));
  in_process([] {
    const Driver driver;
    const Nvml whole;
    const Nvml card(1);
    int number = 0;
    char name[96] = {};
    EXPECT_EQ(driver.call("cuDeviceGetCount", &number), kSuccess);
    EXPECT_EQ(number, 1);
    EXPECT_EQ(driver.call("cuDeviceGetName", name, static_cast<int>(sizeof name), 0), kSuccess);
    EXPECT_STREQ(name, "H200 MIG 1g");
    EXPECT_EQ(driver.call("cuDeviceGetAttribute", &number, 16, 0), kSuccess);
    EXPECT_EQ(number, 16);
    EXPECT_NE(driver.allocate(1'000 * kMiB), 0U);

    unsigned count = 0;
    nvml::Device instances[2] = {};
    unsigned id = 0;
    EXPECT_EQ(card.f().device_count(&count), nvml::kOk);
    EXPECT_EQ(count, 2U);
    for (unsigned i = 0; i < 2; ++i) {
      EXPECT_EQ(card.f().mig_device(card.device, i, &instances[i]), nvml::kOk);
    }
    nvml::Device none = nullptr;
    EXPECT_EQ(card.f().mig_device(card.device, 2, &none), nvml::kNotFound);
    EXPECT_EQ(card.f().mig_device(whole.device, 0, &none), nvml::kNotFound);
    EXPECT_EQ(card.f().uuid(instances[1], name, sizeof name), nvml::kOk);
    EXPECT_STREQ(name, "MIG-6d677075-0000-4000-8000-000000000002");
    EXPECT_EQ(card.f().gpu_instance(instances[1], &id), nvml::kOk);
    EXPECT_EQ(id, 8U);
    EXPECT_EQ(card.f().compute_instance(instances[1], &id), nvml::kOk);
    EXPECT_EQ(id, 1U);

    nvml::Memory memory{};
    EXPECT_EQ(card.f().memory(instances[0], &memory), nvml::kOk);
    EXPECT_EQ(memory.total, 16'384 * kMiB);
    EXPECT_EQ(memory.free, driver.free());
    EXPECT_EQ(memory.used, static_cast<std::uint64_t>(1'523.5625 * kMiB));
    const std::uint64_t used = memory.used;
    EXPECT_EQ(card.f().memory(instances[1], &memory), nvml::kOk);
    EXPECT_EQ(memory.used, 0U);
    EXPECT_EQ(card.f().memory(card.device, &memory), nvml::kOk);
    EXPECT_EQ(memory.used, static_cast<std::uint64_t>(618.3125 * kMiB) + used);
    EXPECT_THAT(card.processes(), ElementsAre(process(::getpid(), 1'518)));
    EXPECT_THAT(whole.processes(), IsEmpty());
  });
  EXPECT_TRUE(create_machine("cards: [{uuid: GPU-1, mig: true}]", machine()));
  in_process(
      [] { EXPECT_EQ(Driver(false).call("cuInit", 0U), kNoDevice) << "it has no MIG device yet"; });
  EXPECT_TRUE(
      create_machine("cards: [{uuid: GPU-1, mig: true}, {uuid: GPU-2, model: A}]", machine()));
  in_process([] {
    const Driver driver;
    char name[96] = {};
    EXPECT_EQ(driver.call("cuDeviceGetName", name, static_cast<int>(sizeof name), 0), kSuccess);
    EXPECT_STREQ(name, "A");
    EXPECT_NE(driver.allocate(1'000 * kMiB), 0U);
    EXPECT_THAT(Nvml(1).processes(), ElementsAre(process(::getpid(), 1'518)));
  });
}

TEST_F(DriverTest, NvmlAndCudaAgreeOnACardThatFallsOffTheBus) {
  in_process([&] {
    const Driver driver;
    const Nvml nvml;
    const Nvml good(1);
    nvml::EventSet set = nullptr;
    nvml::Event event{};
    EXPECT_EQ(nvml.f().event_set_create(&set), nvml::kOk);
    const std::string uuid = "GPU-6d677075-0000-4000-8000-000000000001";
    EXPECT_TRUE(change_card("{xids: [13]}", machine(), uuid));
    EXPECT_EQ(nvml.f().register_events(nvml.device, nvml::kEventXid, set), nvml::kOk);
    EXPECT_TRUE(change_card("{health: {recoveryAction: 1, remapFailed: true}, xids: [31, 79]}",
                            machine(), uuid));
    unsigned counts[4] = {};
    EXPECT_EQ(nvml.f().remapped_rows(nvml.device, &counts[0], &counts[1], &counts[2], &counts[3]),
              nvml::kOk);
    EXPECT_EQ(counts[3], 1U);
    nvml::FieldValue action{};
    action.field = nvml::kFieldRecoveryAction;
    EXPECT_EQ(nvml.f().field_values(nvml.device, 1, &action), nvml::kOk);
    EXPECT_EQ(action.code, nvml::kOk);
    EXPECT_EQ(action.value.whole, 1U);
    for (const unsigned xid : {31U, 79U}) {
      EXPECT_EQ(nvml.f().event_set_wait(set, &event, 0), nvml::kOk);
      EXPECT_EQ(event.value, xid);
      EXPECT_EQ(event.device, nvml.device);
    }
    EXPECT_EQ(nvml.f().event_set_wait(set, &event, 0), nvml::kTimeout);
    nvml.f().event_set_free(set);

    nvml::Memory memory{};
    EXPECT_NE(driver.allocate(kMiB), 0U);
    EXPECT_TRUE(change_card("{health: {lost: true}}", machine(), uuid));
    EXPECT_EQ(nvml.f().memory(nvml.device, &memory), nvml::kGpuIsLost);
    EXPECT_EQ(good.f().memory(good.device, &memory), nvml::kOk);
    EXPECT_EQ(driver.call("cuCtxSynchronize"), kUnknown);
    EXPECT_TRUE(change_card("{health: {}}", machine(), uuid));
    EXPECT_EQ(nvml.f().memory(nvml.device, &memory), nvml::kOk);
    EXPECT_EQ(driver.call("cuCtxSynchronize"), kUnknown) << "its contexts are lost";
  });
}

TEST_F(DriverTest, DriversBeforeR570ReportNoRecoveryAction) {
  EXPECT_TRUE(create_machine("{driver: {release: 565.57.01}, cards: [{uuid: GPU-1}]}", machine()));
  const Nvml nvml;
  nvml::FieldValue action{};
  action.field = nvml::kFieldRecoveryAction;
  EXPECT_EQ(nvml.f().field_values(nvml.device, 1, &action), nvml::kOk);
  EXPECT_EQ(action.code, nvml::kNotSupported);
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
