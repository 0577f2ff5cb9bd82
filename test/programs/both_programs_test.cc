// mgpu-extender and mgpu-device-plugin in one program: their libraries are linked whole, so that
// two definitions of one name are an error of the linker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/flags.h"
#include "plugin/agent/flags.h"

namespace mgpu {
namespace {

TEST(BothPrograms, ParseTheirFlagsInOneProcess) {
  extender::Flags extender_flags;
  plugin::Flags plugin_flags;
  Options extender_options("mgpu-extender", "", "MGPU_EXTENDER");
  Options plugin_options("mgpu-device-plugin", "", "MGPU_DEVICE_PLUGIN");
  extender::add_flags(extender_options, extender_flags);
  plugin::add_flags(plugin_options, plugin_flags);
  const char* const extender_line[] = {"mgpu-extender", "--port=9810"};
  const char* const plugin_line[] = {"mgpu-device-plugin", "--metrics-bind-address=127.0.0.1:9811",
                                     "--node-name=n1"};
  extender_options.parse(2, extender_line);
  plugin_options.parse(3, plugin_line);
  EXPECT_EQ(extender_flags.port, 9810);
  EXPECT_EQ(plugin_flags.service.metrics_bind_address, "127.0.0.1:9811");
  EXPECT_EQ(extender_flags.service.metrics_bind_address, "127.0.0.1:9802");
  EXPECT_EQ(plugin_flags.node_name, "n1");
}

TEST(BothPrograms, AgreeOnTheContract) {
  extender::Flags extender_flags;
  plugin::Flags plugin_flags;
  plugin_flags.node_name = "n1";
  const auto extender = extender::options_of(extender_flags);
  const auto plugin = plugin::options_of(plugin_flags);
  ASSERT_TRUE(extender.has_value());
  ASSERT_TRUE(plugin.has_value());
  EXPECT_EQ(extender->verbs.contract.core_resource, plugin->contract.core_resource);
  EXPECT_EQ(extender->verbs.contract.memory_resource, plugin->contract.memory_resource);
}

}  // namespace
}  // namespace mgpu
