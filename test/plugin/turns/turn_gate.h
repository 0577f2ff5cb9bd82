// The library and the plugin of turns in the model of a card. The plugin's decisions and the window
// of launches are the product's own.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "plugin/share/launch_window.h"
#include "plugin/turns/turns.h"
#include "test/plugin/turns/card_model.h"

namespace mgpu::plugin::model {

class TurnGate : public Gate {
 public:
  // One program in each container.
  TurnGate(TurnRule rule, const std::vector<double>& shares);

  void begin(Card& card) override;
  bool may_launch(std::size_t who, int stream) override;
  void launched(std::size_t who, int stream, const Kernel& kernel) override;
  void waits(std::size_t who) override;
  void has_waited(std::size_t who) override;
  void reached(std::size_t who, int stream, std::uint64_t mark) override;

 private:
  struct Container {
    share::LaunchWindow window{};
    std::array<std::uint64_t, kStreams> launched{};
    std::array<std::uint64_t, kStreams> marked{};
    std::array<std::uint64_t, kStreams> finished{};
    std::uint64_t all = 0;
    std::uint64_t seen = 0;  // of them, by the plugin
    bool waits = false;
    bool window_full = false;
    Time polled = 0;
    Turn turn = Turn::kWait;
  };

  void put_mark(std::size_t who, int stream);
  void finish(std::size_t who, int stream, std::uint64_t upto);
  static bool works(const Container& container);
  void look();

  Card* card_ = nullptr;
  CardTurns turns_;
  std::vector<Container> containers_;
};

}  // namespace mgpu::plugin::model
