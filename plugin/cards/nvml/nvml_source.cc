#include "plugin/cards/nvml/nvml_source.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "plugin/cards/driver_thread.h"
#include "plugin/cards/nvml/nvml_session.h"

namespace mgpu::plugin {
namespace {

using nvml::Session;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

milliseconds until(steady_clock::time_point end) {
  return std::chrono::ceil<milliseconds>(std::max(end - steady_clock::now(), {}));
}

// All calls into NVML run on a thread of their own, so that a call that hangs costs one card and
// does not block the plugin.
class NvmlSource : public CardSource {
 public:
  explicit NvmlSource(NvmlOptions options)
      : timeout_(options.timeout), session_(std::make_shared<Session>(std::move(options))) {}

  ~NvmlSource() override {
    thread_.start([session = session_] { session->close(); });
  }

  Result<FoundCards> read() override {
    struct Reading {
      std::optional<Result<FoundCards>> cards;
      std::string description;
      std::string needs_restart;
    };
    const auto reading = std::make_shared<Reading>();
    const bool done = run([session = session_, reading] {
      reading->cards = session->read();
      reading->description = session->description();
      reading->needs_restart = session->needs_restart();
    });
    if (!done) return cards_while_hanging();
    description_ = reading->description;
    needs_restart_ = reading->needs_restart;
    if (*reading->cards) last_read_ = **reading->cards;
    return *std::move(reading->cards);
  }

  std::vector<CardUse> use() override {
    const auto use = std::make_shared<std::vector<CardUse>>();
    const bool done = run([session = session_, use] { *use = session->use(); });
    return done ? std::move(*use) : std::vector<CardUse>();
  }

  void wait_for_change(milliseconds timeout) override {
    // The end of a hanging call is a change.
    if (hangs_ && thread_.wait(milliseconds(0))) return;
    const auto end = steady_clock::now() + timeout;
    while (steady_clock::now() < end) {
      const auto changed = std::make_shared<std::optional<bool>>();
      const bool started =
          thread_.start([session = session_, changed] { *changed = session->wait_for_xids(); });
      if (thread_.wait_for_interrupt(until(end), true)) return;
      // The call that was hanging has ended, or still hangs.
      if (!started || !thread_.wait(milliseconds(0))) return;
      if (changed->value_or(false)) return;
      if (!*changed && thread_.wait_for_interrupt(until(end), false)) return;
    }
  }

  void interrupt() override { thread_.interrupt(); }

  void release() override {
    run([session = session_] { session->release(); });
  }

  std::string needs_restart() const override { return needs_restart_; }

  std::string description() const override { return description_; }

 private:
  // Returns whether `call` ended in time. If one did not, the next does not wait for it.
  bool run(std::function<void()> call) {
    const milliseconds idle_timeout = hangs_ ? milliseconds(0) : timeout_;
    hangs_ =
        !thread_.wait(idle_timeout) || !thread_.start(std::move(call)) || !thread_.wait(timeout_);
    return !hangs_;
  }

  // The card whose call hangs is unhealthy. The others keep their state.
  Result<FoundCards> cards_while_hanging() const {
    const CardUuid card = session_->current_card();
    if (!last_read_ || card.empty()) return error("the NVIDIA driver does not respond to NVML");
    FoundCards cards = *last_read_;
    for (FoundCard& found : cards.cards) {
      if (found.uuid == card) found.health = "the driver does not respond";
    }
    return cards;
  }

  const milliseconds timeout_;
  const std::shared_ptr<Session> session_;
  std::optional<FoundCards> last_read_;
  std::string description_ = session_->description();
  std::string needs_restart_;
  bool hangs_ = false;
  DriverThread thread_;
};

}  // namespace

std::unique_ptr<CardSource> nvml_source(NvmlOptions options) {
  return std::make_unique<NvmlSource>(std::move(options));
}

}  // namespace mgpu::plugin
