// Which functions the library has, and which cuGetProcAddress gives. The rules are those of
// NVIDIA's documents; driver_versions.def has the versions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "test/gpu/driver_under_test.h"

namespace mgpu::fake_gpu {
namespace {

constexpr const char* kNames[] = {
#define DRIVER_FUNCTION(name, kind) #name,
#include "plugin/share/driver_functions.def"
#undef DRIVER_FUNCTION
};

constexpr std::uint64_t kLegacy = 1;
constexpr std::uint64_t kPerThread = 2;

// The function that cuGetProcAddress gives, as the name under which dlsym has it.
struct Asked {
  const Driver& driver;
  int status = -1;

  void* ask(const std::string& name, int version, std::uint64_t flags) {
    void* function = nullptr;
    EXPECT_EQ(driver.call("cuGetProcAddress_v2", name.c_str(), &function, version, flags, &status),
              kSuccess);
    return function;
  }
};

TEST_F(DriverTest, DefinesEveryFunctionOfTheList) {
  in_process([] {
    const Driver driver(false);
    for (const char* const name : kNames) EXPECT_NE(driver.find(name), nullptr) << name;
    EXPECT_EQ(driver.find("cuNothing"), nullptr);
  });
}

TEST_F(DriverTest, GivesTheFormOfTheVersion) {
  in_process([] {
    const Driver driver(false);
    Asked asked{driver};
    struct Case {
      std::string name;
      int version;
      std::uint64_t flags;
      std::string expected;
    };
    const Case cases[] = {
        {"cuInit", 2000, 0, "cuInit"},
        {"cuMemAlloc", 3010, 0, "cuMemAlloc"},
        {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
        {"cuMemAlloc", 13'050, kPerThread, "cuMemAlloc_v2"},
        {"cuCtxCreate", 11'040, 0, "cuCtxCreate_v3"},
        {"cuCtxCreate", 13'000, 0, "cuCtxCreate_v4"},
        {"cuGraphInstantiate", 11'080, 0, "cuGraphInstantiate_v2"},
        {"cuGraphInstantiate", 12'000, 0, "cuGraphInstantiateWithFlags"},
        {"cuMemcpyHtoD", 13'000, kLegacy, "cuMemcpyHtoD_v2"},
        {"cuMemcpyHtoD", 13'000, kPerThread, "cuMemcpyHtoD_v2_ptds"},
        {"cuLaunchKernel", 12'000, kPerThread, "cuLaunchKernel_ptsz"},
        {"cuLaunchKernel", 6050, kPerThread, "cuLaunchKernel"},
        {"cuGetProcAddress", 11'030, 0, "cuGetProcAddress"},
        {"cuGetProcAddress", 12'000, 0, "cuGetProcAddress_v2"},
    };
    for (const Case& c : cases) {
      EXPECT_EQ(asked.ask(c.name, c.version, c.flags), driver.find(c.expected)) << c.expected;
      EXPECT_EQ(asked.status, 0) << c.expected;
    }
  });
}

TEST_F(DriverTest, SaysWhyThereIsNoFunction) {
  in_process([] {
    const Driver driver(false);
    Asked asked{driver};
    EXPECT_EQ(asked.ask("cuNothing", 13'000, 0), nullptr);
    EXPECT_EQ(asked.status, 1);
    EXPECT_EQ(asked.ask("cuMemAlloc_v2", 13'000, 0), nullptr);
    EXPECT_EQ(asked.status, 1);
    EXPECT_EQ(asked.ask("cuMemAllocAsync", 11'010, 0), nullptr);
    EXPECT_EQ(asked.status, 2);
    void* function = nullptr;
    EXPECT_EQ(driver.call("cuGetProcAddress", "cuNothing", &function, 11'030, std::uint64_t{0}),
              kNotFound);
    EXPECT_EQ(driver.call("cuGetProcAddress", "cuInit", &function, 11'030, std::uint64_t{3}),
              kInvalidValue);
  });
}

// What programs find in either way is the same, and there is none that only one has.
TEST_F(DriverTest, GivesWhatDlsymFinds) {
  in_process([] {
    const Driver driver(false);
    Asked asked{driver};
    for (const std::string name : kNames) {
      if (name.find('_') != std::string::npos) continue;
      void* const newest = asked.ask(name, 99'000, kLegacy);
      bool found = name == "cuGraphInstantiate";
      for (const char* const form : {"", "_v2", "_v3", "_v4"}) {
        found = found || newest == driver.find(name + form);
      }
      EXPECT_TRUE(found && newest != nullptr) << name;
    }
  });
}

// A stand-in for NVIDIA's runtimes: they find one function by dlsym, and through it all others.
class Runtime {
 public:
  Runtime(const Driver& driver, int version, std::uint64_t flags)
      : driver_(driver), version_(version), flags_(flags) {}

  template <class... Arguments>
  int call(const std::string& name, Arguments... arguments) const {
    void* function = nullptr;
    int status = -1;
    EXPECT_EQ(
        driver_.call("cuGetProcAddress_v2", name.c_str(), &function, version_, flags_, &status),
        kSuccess);
    if (function == nullptr) {
      ADD_FAILURE() << name << " has the status " << status;
      return -1;
    }
    return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
  }

 private:
  const Driver& driver_;
  const int version_;
  const std::uint64_t flags_;
};

TEST_F(DriverTest, ServesProgramsThatAskForEachFunction) {
  for (const auto& [version, flags] :
       {std::pair{11'080, kLegacy}, std::pair{12'090, kPerThread}, std::pair{13'050, kPerThread}}) {
    in_process([version = version, flags = flags] {
      const Driver driver(false);
      const Runtime runtime(driver, version, flags);
      int count = 0;
      Handle context = nullptr;
      Handle stream = nullptr;
      Pointer pointer = 0;
      std::string back = "....";
      const std::size_t bytes = back.size();
      EXPECT_EQ(runtime.call("cuInit", 0U), kSuccess);
      EXPECT_EQ(runtime.call("cuDriverGetVersion", &count), kSuccess);
      EXPECT_EQ(runtime.call("cuDeviceGetCount", &count), kSuccess);
      EXPECT_EQ(runtime.call("cuDevicePrimaryCtxRetain", &context, 0), kSuccess);
      EXPECT_EQ(runtime.call("cuCtxSetCurrent", context), kSuccess);
      EXPECT_EQ(runtime.call("cuMemAlloc", &pointer, std::size_t{4096}), kSuccess);
      EXPECT_EQ(runtime.call("cuStreamCreate", &stream, 1U), kSuccess);
      EXPECT_EQ(runtime.call("cuMemcpyHtoDAsync", pointer, "data", bytes, stream), kSuccess);
      EXPECT_EQ(runtime.call("cuMemcpyDtoHAsync", back.data(), pointer, bytes, stream), kSuccess);
      EXPECT_EQ(runtime.call("cuStreamSynchronize", stream), kSuccess);
      EXPECT_EQ(back, "data");
      EXPECT_EQ(runtime.call("cuMemFreeAsync", pointer, stream), kSuccess);
      EXPECT_EQ(runtime.call("cuDevicePrimaryCtxRelease", 0), kSuccess);
    });
  }
}

}  // namespace
}  // namespace mgpu::fake_gpu
