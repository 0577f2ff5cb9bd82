// kubectl mgpu version
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

class VersionVerb final : public Verb {
 public:
  std::string name() const override { return "version"; }
  std::string description() const override { return "prints the version of this program"; }
  void add_flags(Options&) override {}
  int run(Console& console) override {
    console.print(version_text() + "\n");
    return kFine;
  }
};

}  // namespace

std::unique_ptr<Verb> version_verb() {
  return std::make_unique<VersionVerb>();
}

}  // namespace mgpu::kubectl
