// A layout of a node that test/golden/nvidia-ctk-*/generate.go has recorded: the files of the node,
// and what NVIDIA's tool lists for them.
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "plugin/allocation/edits.h"
#include "plugin/cards/driver/driver_files.h"
#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin {

class RecordedLayout {
 public:
  // `folder` is test/golden/nvidia-ctk-*, `name` such as "debian".
  RecordedLayout(const std::string& folder, const std::string& name)
      : name_(name),
        spec_file_(folder + "/" + name + ".yaml"),
        links_file_(folder + "/" + name + ".links") {
    std::ifstream tree(folder + "/" + name + ".tree");
    for (std::string line; std::getline(tree, line);) {
      std::istringstream words(line);
      std::string kind, path, target;
      words >> kind >> path >> target;
      if (kind == "link") {
        add_link(path, target);
        continue;
      }
      node_.add_file(path);
      unsigned minor = 0;
      if (kind == "device" && words >> minor) {
        devices_[path] = makedev(static_cast<unsigned>(std::stoul(target)), minor);
      }
    }
    spec_ = YAML::LoadFile(spec_file_);
  }

  const std::string& name() const { return name_; }
  const FakeDriver& node() const { return node_; }
  const std::string& spec_file() const { return spec_file_; }

  // As plugin/cards/nvml/nvml_session.cc finds it.
  DriverPlace place() const {
    const std::string nvml = nvml_libraries(node_.root(), "").front();
    return {.node_root = node_.root(),
            .driver_root = driver_root_of(nvml),
            .version = "580.95.05",
            .nvml = nvml};
  }

  // The file behind a path of the node.
  std::string resolved(const std::string& path) const {
    std::filesystem::path at;
    for (const std::filesystem::path& part : std::filesystem::path(path)) {
      at /= part;
      const auto link = links_.find(at.string());
      if (link == links_.end()) continue;
      const std::filesystem::path target = at.parent_path() / link->second;
      return resolved(target.lexically_normal().string() + path.substr(at.string().size()));
    }
    return path;
  }

  // Makes devices of the files in /dev. False without the right to do so.
  bool make_devices() const {
    for (const auto& [path, numbers] : devices_) {
      std::filesystem::remove(node_.root() + path);
      if (::mknod((node_.root() + path).c_str(), S_IFCHR | 0600, numbers) != 0) return false;
    }
    return true;
  }

  // The devices behind the links in /dev/char by their names: {"195:255", "/dev/nvidiactl"}.
  std::map<std::string, std::string> device_links() const {
    std::map<std::string, std::string> found;
    std::ifstream file(links_file_);
    for (std::string name, target; file >> name >> target;) found[name] = target;
    return found;
  }

  // The mounts for all containers, with the files behind the paths on the node.
  std::vector<Mount> mounts() const {
    std::vector<Mount> found;
    for (const auto& mount : common("mounts")) {
      const auto host_path = mount["hostPath"].as<std::string>();
      found.push_back({resolved(host_path), mount["containerPath"].as<std::string>(), true});
    }
    return found;
  }

  // The device nodes for all containers, and those of the card.
  std::vector<DeviceNode> nodes() const { return nodes_of(common("deviceNodes")); }
  std::vector<DeviceNode> card_nodes() const {
    return nodes_of(spec_["devices"][0]["containerEdits"]["deviceNodes"]);
  }

  std::set<std::string> environment() const {
    std::set<std::string> found;
    for (const auto& variable : common("env")) found.insert(variable.as<std::string>());
    return found;
  }

  // "create-symlinks"
  std::set<std::string> hooks() const {
    std::set<std::string> found;
    for (const auto& hook : common("hooks")) found.insert(hook["args"][1].as<std::string>());
    return found;
  }

  // The links that hooks make in containers: targets by path.
  std::map<std::string, std::string> links() const {
    std::map<std::string, std::string> found;
    for (const auto& hook : common("hooks")) {
      for (const auto& argument : hook["args"]) {
        const auto text = argument.as<std::string>();
        const std::size_t at = text.find("::");
        if (at != std::string::npos) found[text.substr(at + 2)] = text.substr(0, at);
      }
    }
    return found;
  }

 private:
  void add_link(const std::string& path, const std::string& target) {
    const std::filesystem::path link = node_.root() + path;
    std::filesystem::create_directories(link.parent_path());
    std::filesystem::create_symlink(target, link);
    links_[path] = target;
  }

  YAML::Node common(const char* name) const { return spec_["containerEdits"][name]; }

  static std::vector<DeviceNode> nodes_of(const YAML::Node& list) {
    std::vector<DeviceNode> found;
    for (const auto& node : list) {
      const auto path = node["path"].as<std::string>();
      found.push_back({path, node["hostPath"].as<std::string>(path)});
    }
    return found;
  }

  const std::string name_;
  const std::string spec_file_;
  const std::string links_file_;
  FakeDriver node_;
  std::map<std::string, std::string> links_;
  std::map<std::string, dev_t> devices_;
  YAML::Node spec_;
};

}  // namespace mgpu::plugin
