#include <utility>

#include "plugin/injection/injector.h"

namespace mgpu::plugin {

namespace {

// Random nonces have neither (agent_start.cc).
constexpr char kCdiMark = '1';
constexpr char kNodesMark = '0';

class InjectorOfKinds final : public Injector {
 public:
  InjectorOfKinds(InjectionKind now, std::unique_ptr<Injector> cdi, std::unique_ptr<Injector> nodes)
      : now_(now), cdi_(std::move(cdi)), nodes_(std::move(nodes)) {}

  std::string name() const override { return injector_now().name(); }

  AllocateResponse allocate_response(const Record& record) const override {
    return injector_now().allocate_response(record);
  }

  void set_shared(const Edits& shared, const Edits& with_hooks) override {
    cdi_->set_shared(shared, with_hooks);
    nodes_->set_shared(shared, with_hooks);
  }

  void restore(const AllocationId& id, const Edits& edits) override {
    if (kind_of(id) != InjectionKind::kDeviceNodes) cdi_->restore(id, edits);
    if (kind_of(id) != InjectionKind::kCdi) nodes_->restore(id, edits);
  }

  Result<bool> inject(const AllocationId& id, const Edits& edits) override {
    const auto kind = kind_of(id);
    if (!kind) return inject_in_both_ways(id, edits);
    if (*kind == InjectionKind::kDeviceNodes) return nodes_->inject(id, edits);
    if (now_ == InjectionKind::kCdi) return cdi_->inject(id, edits);
    return error(
        "kubelet was given a CDI device for this container, and the container runtime does not "
        "support CDI any more; delete the pod so that it is created again");
  }

  void remove(const AllocationId& id) override {
    cdi_->remove(id);
    nodes_->remove(id);
  }

 private:
  Injector& injector_now() const { return now_ == InjectionKind::kCdi ? *cdi_ : *nodes_; }

  Result<bool> inject_in_both_ways(const AllocationId& id, const Edits& edits) {
    auto injected = injector_now().inject(id, edits);
    if (!injected) return injected;
    Injector& other = now_ == InjectionKind::kCdi ? *nodes_ : *cdi_;
    // An error of the other way matters only if the response is of that kind. Without its folder
    // the container does not start; one of an earlier start would give it the cards without the
    // limits that are to be injected now. Without CDI in the runtime it starts without cards, which
    // an id of an earlier version cannot prevent.
    if (!other.inject(id, edits)) other.remove(id);
    return injected;
  }

  const InjectionKind now_;
  const std::unique_ptr<Injector> cdi_;
  const std::unique_ptr<Injector> nodes_;
};

}  // namespace

std::string nonce_of(InjectionKind kind, std::string_view random) {
  return std::string(random) + (kind == InjectionKind::kCdi ? kCdiMark : kNodesMark);
}

std::optional<InjectionKind> kind_of(const AllocationId& id) {
  if (id.str().ends_with(kCdiMark)) return InjectionKind::kCdi;
  if (id.str().ends_with(kNodesMark)) return InjectionKind::kDeviceNodes;
  return std::nullopt;
}

std::unique_ptr<Injector> injector_of_kinds(InjectionKind now, std::unique_ptr<Injector> cdi,
                                            std::unique_ptr<Injector> nodes) {
  return std::make_unique<InjectorOfKinds>(now, std::move(cdi), std::move(nodes));
}

}  // namespace mgpu::plugin
