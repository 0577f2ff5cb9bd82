#include "plugin/cards/nvml_source.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "plugin/cards/driver_thread.h"
#include "plugin/cards/nvml_session.h"

namespace mgpu::plugin {
namespace {

using nvml::Session;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

milliseconds until(steady_clock::time_point end) {
  return std::chrono::ceil<milliseconds>(std::max(end - steady_clock::now(), {}));
}

// NVML behind a thread of its own, so that a call that hangs costs one card and not the plugin.
class NvmlSource : public CardSource {
 public:
  explicit NvmlSource(NvmlOptions options)
      : patience_(options.patience), session_(std::make_shared<Session>(std::move(options))) {}

  ~NvmlSource() override {
    thread_.start([session = session_] { session->close(); });
  }

  Result<FoundCards> read() override {
    struct Answer {
      std::optional<Result<FoundCards>> inventory;
      std::string description;
    };
    const auto answer = std::make_shared<Answer>();
    const bool answered = ask([session = session_, answer] {
      answer->inventory = session->read();
      answer->description = session->description();
    });
    if (!answered) return without_an_answer();
    description_ = answer->description;
    if (*answer->inventory) known_ = **answer->inventory;
    return *std::move(answer->inventory);
  }

  std::vector<CardUse> use() override {
    const auto use = std::make_shared<std::vector<CardUse>>();
    const bool answered = ask([session = session_, use] { *use = session->use(); });
    return answered ? std::move(*use) : std::vector<CardUse>();
  }

  void wait_for_change(milliseconds timeout) override {
    if (hangs_ && thread_.wait(milliseconds(0))) return;  // it answers again, which is news
    const auto end = steady_clock::now() + timeout;
    while (steady_clock::now() < end) {
      const auto changed = std::make_shared<std::optional<bool>>();
      const bool started =
          thread_.start([session = session_, changed] { *changed = session->wait_for_xids(); });
      if (thread_.wait_for_interrupt(until(end), true)) return;
      // What was hanging has ended, or goes on.
      if (!started || !thread_.wait(milliseconds(0))) return;
      if (changed->value_or(false)) return;
      if (!*changed && thread_.wait_for_interrupt(until(end), false)) return;
    }
  }

  void interrupt() override { thread_.interrupt(); }

  std::string description() const override { return description_; }

 private:
  // Whether `question` was answered in time. Once one was not, the next ones are not waited for.
  bool ask(std::function<void()> question) {
    const milliseconds patience = hangs_ ? milliseconds(0) : patience_;
    hangs_ =
        !thread_.wait(patience) || !thread_.start(std::move(question)) || !thread_.wait(patience_);
    return !hangs_;
  }

  // The card that does not answer is sick; nothing is known to be wrong with the others.
  Result<FoundCards> without_an_answer() const {
    const CardUuid card = session_->at_card();
    if (!known_ || card.empty()) return error("the NVIDIA driver does not answer NVML");
    FoundCards inventory = *known_;
    for (FoundCard& found : inventory.cards) {
      if (found.uuid == card) found.health = "the driver does not answer";
    }
    return inventory;
  }

  const milliseconds patience_;
  const std::shared_ptr<Session> session_;
  std::optional<FoundCards> known_;
  std::string description_ = session_->description();
  bool hangs_ = false;
  DriverThread thread_;
};

}  // namespace

std::unique_ptr<CardSource> nvml_source(NvmlOptions options) {
  return std::make_unique<NvmlSource>(std::move(options));
}

}  // namespace mgpu::plugin
