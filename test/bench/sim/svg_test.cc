#include "bench/sim/svg.h"

#include <gmock/gmock.h>

namespace mgpu::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Share kCapacity{kWholeCard, MiB(32'000)};

CardPicture card(std::vector<Piece> pieces) {
  return {
      .index = CardIndex(3), .model = "V100", .capacity = kCapacity, .pieces = std::move(pieces)};
}

PodPicture placed(std::string name) {
  return {.ref = {"default", std::move(name)},
          .request = "30 % 1024 MiB",
          .node = "n1",
          .annotations = {{"vke.volcengine.com/assumed", "true"},
                          {"vke.volcengine.com/gpu-index-container-app", "3"}},
          .reason = "",
          .details = {}};
}

TEST(Svg, ShowsThePiecesOfACard) {
  const std::string svg =
      draw_svg({{{"n1", {card({{0, {Percent(50), MiB(8'000)}}})}}}, {placed("notebook")}});
  EXPECT_THAT(svg, HasSubstr(">32,000 MiB<"));
  EXPECT_THAT(svg, HasSubstr(">50 %<"));
  EXPECT_THAT(svg, HasSubstr(">25 %<"));
  // Half of a bar of 230.
  EXPECT_THAT(svg, HasSubstr("width=\"115\""));
}

TEST(Svg, ShowsThePlacementOfAPod) {
  const std::string svg = draw_svg({{}, {placed("notebook")}});
  EXPECT_THAT(svg, HasSubstr(">notebook<"));
  EXPECT_THAT(svg, HasSubstr(">30 % 1024 MiB<"));
  EXPECT_THAT(svg, HasSubstr(">n1<"));
  EXPECT_THAT(svg, HasSubstr(">app \"3\"<"));
}

TEST(Svg, ShowsTheReasonOfAPendingPod) {
  PodPicture pod = placed("wide");
  pod.node = "";
  pod.reason = "0/1 nodes are available: " + std::string(80, 'x') + " " + std::string(80, 'y');
  pod.details = {"n1 card 0: unhealthy"};
  const std::string svg = draw_svg({{}, {pod}});
  EXPECT_THAT(svg, HasSubstr(">pending<"));
  EXPECT_THAT(svg, HasSubstr(std::string(80, 'x') + "<")) << "the line is broken";
  EXPECT_THAT(svg, HasSubstr(">" + std::string(80, 'y') + "<"));
  EXPECT_THAT(svg, HasSubstr(">n1 card 0: unhealthy<"));
}

TEST(Svg, ShowsThatAnUnhealthyCardIsNotOffered) {
  CardPicture unhealthy = card({});
  unhealthy.healthy = false;
  EXPECT_THAT(draw_svg({{{"n1", {unhealthy}}}, {}}), HasSubstr(">unhealthy, not offered<"));
  EXPECT_THAT(draw_svg({{{"n1", {}}}, {}}), HasSubstr(">no cards<"));
}

TEST(Svg, KeepsTheBarOfAnOvercommittedCardWithinItsWidth) {
  const Piece most{0, {Percent(80), MiB(30'000)}};
  const std::string svg = draw_svg({{{"n1", {card({most, most})}}}, {placed("a")}});
  EXPECT_THAT(svg, HasSubstr(">160 %<"));
  // 184 of 230 for the first piece, the rest for the second.
  EXPECT_THAT(svg, HasSubstr("width=\"184\""));
  EXPECT_THAT(svg, HasSubstr("width=\"46\""));
}

TEST(Svg, EscapesText) {
  CardPicture odd = card({});
  odd.model = "<A&B>\x01";
  const std::string svg = draw_svg({{{"n1", {odd}}}, {}});
  EXPECT_THAT(svg, HasSubstr(">&lt;A&amp;B&gt; <"));
  EXPECT_THAT(svg, Not(HasSubstr("\x01")));
}

TEST(Svg, ShortensTextBetweenCharacters) {
  CardPicture longer = card({});
  longer.model = "NVIDIA RTX\u00e9\u00e9\u00e9";
  EXPECT_THAT(draw_svg({{{"n1", {longer}}}, {}}), HasSubstr(">NVIDIA RTX\u2026<"));
}

}  // namespace
}  // namespace mgpu::sim
