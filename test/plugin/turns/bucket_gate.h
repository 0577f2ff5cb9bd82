// Two published controllers of compute in the model of a card. A launch takes the blocks of its
// grid out of a bucket, and waits while the bucket is overdrawn. A thread fills it up from time to
// time; how far depends on how the utilization that NVML reports of the container differs from its
// limit. Both know fixed shares.
//
// kDelta: rate_limiter(), delta() and change_token() of HAMi-core,
// https://github.com/Project-HAMi/HAMi-core, src/multiprocess/multiprocess_utilization_watcher.c at
// 078a2d29e924.
// kAimd: aimd_controller() of vgpu-manager with its defaults, a descendant of vcuda-controller,
// https://github.com/coldzerofear/vgpu-manager, library/src/cuda_hook.c in 2026. It comes from
// https://github.com/midokura/HAMi-core, the same file as above at 41ccc50e834d, and differs from
// it in that it holds where the utilization is close below the limit, and for three rounds after it
// went down.
#pragma once

#include <cstdint>
#include <vector>

#include "test/plugin/turns/card_model.h"

namespace mgpu::plugin::model {

enum class Controller {
  kDelta,  // up or down by the difference
  kAimd,   // additive increase, multiplicative decrease
};

class BucketGate : public Gate {
 public:
  // One program in each container. Grids have `density` times the blocks of the kernels.
  BucketGate(Controller controller, const std::vector<double>& shares, double density);

  void begin(Card& card) override;
  bool may_launch(std::size_t who, int stream) override;
  void launched(std::size_t who, int stream, const Kernel& kernel) override;

 private:
  struct Container {
    std::int64_t limit;            // percent of the card
    std::int64_t most;             // blocks in the bucket
    std::int64_t tokens = 0;       // blocks; below 0: overdrawn
    std::int64_t refill = 0;       // blocks, each time
    std::int64_t utilization = 0;  // percent
    Time busy = 0;                 // at the last sample
    int hold = 0;                  // rounds without another decrease
  };

  void sample();
  void watch();
  static void refill_by_difference(Container& container);
  static void refill_by_aimd(Container& container);

  const Controller controller_;
  const double density_;
  Card* card_ = nullptr;
  std::vector<Container> containers_{};
};

}  // namespace mgpu::plugin::model
