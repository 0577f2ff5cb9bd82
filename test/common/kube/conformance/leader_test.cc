// The EndpointSlice that the extender with the Lease writes for its Service, and the Lease's times.
#include <string>

#include "common/kube/request.h"
#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

class LeaderConformance : public Conformance {
 protected:
  Answer send(const kube::Request& request) {
    return call(request.method, request.target, request.body, request.content_type);
  }
  // A Service without a selector, as kube-scheduler calls it.
  kube::Service service() {
    const std::string service_name = name("extender");
    const Json created = create(
        "/api/v1/namespaces/" + name_space() + "/services",
        Json{{"apiVersion", "v1"},
             {"kind", "Service"},
             {"metadata", {{"name", service_name}}},
             {"spec", {{"ports", {{{"name", "verbs"}, {"port", 9800}, {"protocol", "TCP"}}}}}}}
            .dump());
    kube::Service service;
    service.metadata.name = service_name;
    service.metadata.name_space = name_space();
    service.metadata.uid = created["metadata"]["uid"];
    return service;
  }
  kube::EndpointSlice slice_of(const kube::Service& service, const std::string& address) {
    kube::EndpointSlice slice;
    slice.metadata.name = service.metadata.name;
    slice.metadata.name_space = service.metadata.name_space;
    slice.metadata.labels = {{"kubernetes.io/service-name", service.metadata.name}};
    slice.address_type = "IPv4";
    slice.addresses = {address};
    slice.port_name = "verbs";
    slice.port = 9800;
    return slice;
  }
  Json create_slice(const kube::Service& service, const std::string& address) {
    const kube::Request request = kube::write_endpoint_slice(service, slice_of(service, address));
    return create(request.target, request.body);
  }
  Json create_lease(const kube::Lease& lease) {
    const kube::Request request = kube::write_lease(lease);
    return create(request.target, request.body);
  }
  kube::Lease held_lease() {
    return {.ref = {name_space(), name("lease")},
            .resource_version = "",
            .holder = "a",
            .duration_s = 15,
            .acquire_time = "2026-01-02T03:04:05.000006Z",
            .renew_time = "2026-01-02T03:04:07.000008Z",
            .transitions = 3};
  }
};
INSTANTIATE_TEST_SUITE_P(Server, LeaderConformance, testing::Values("memory", "real"),
                         [](const auto& param_of) { return param_of.param; });

TEST_P(LeaderConformance, CreatesTheSliceOnce) {
  const kube::Service of = service();
  const Json created = create_slice(of, "10.0.0.1");
  EXPECT_EQ(created["endpoints"][0]["addresses"], Json({"10.0.0.1"}));
  EXPECT_EQ(created["endpoints"][0]["conditions"]["ready"], true);
  EXPECT_EQ(created["ports"][0]["port"], 9800);
  EXPECT_EQ(created["metadata"]["ownerReferences"][0]["uid"], of.metadata.uid);
  const Answer again = send(kube::write_endpoint_slice(of, slice_of(of, "10.0.0.2")));
  EXPECT_EQ(again.code, 409) << again.text;
}

TEST_P(LeaderConformance, TheFirstOfTwoLeadersWithTheSameVersionReplacesTheSlice) {
  const kube::Service of = service();
  const Json created = create_slice(of, "10.0.0.1");
  kube::EndpointSlice slice = slice_of(of, "10.0.0.2");
  slice.metadata.resource_version = version_of(created);
  const Answer first = send(kube::write_endpoint_slice(of, slice));
  EXPECT_EQ(first.code, 200) << first.text;
  slice.addresses = {"10.0.0.3"};
  const Answer second = send(kube::write_endpoint_slice(of, slice));
  EXPECT_EQ(second.code, 409) << second.text;
  const Json read = send(kube::get_endpoint_slice({name_space(), of.metadata.name})).body;
  EXPECT_EQ(read["endpoints"][0]["addresses"], Json({"10.0.0.2"}));
}

TEST_P(LeaderConformance, KeepsTheTimesOfTheLease) {
  const kube::Lease lease = held_lease();
  create_lease(lease);
  const Json spec = send(kube::get_lease(lease.ref)).body["spec"];
  EXPECT_EQ(spec["leaseDurationSeconds"], 15);
  EXPECT_EQ(spec["leaseTransitions"], 3);
  EXPECT_EQ(spec["acquireTime"], "2026-01-02T03:04:05.000006Z");
  EXPECT_EQ(spec["renewTime"], "2026-01-02T03:04:07.000008Z");
}

TEST_P(LeaderConformance, ALeaseThatIsGivenUpHasNoHolder) {
  kube::Lease lease = held_lease();
  lease.resource_version = version_of(create_lease(lease));
  lease.holder.clear();
  const Answer given_up = send(kube::write_lease(lease));
  EXPECT_EQ(given_up.code, 200) << given_up.text;
  EXPECT_EQ(given_up.body["spec"].value("holderIdentity", ""), "");
}

TEST_P(LeaderConformance, TheCollectionOfOneLeaseHasNoOther) {
  const kube::Lease lease = held_lease();
  create_lease(lease);
  create_lease(held_lease());
  const kube::Resource one = kube::one_lease(lease.ref);
  const Json items = get(one.path + "?fieldSelector=" + one.field_selector).body["items"];
  ASSERT_EQ(items.size(), 1U);
  EXPECT_EQ(items[0]["metadata"]["name"], lease.ref.name);
}

}  // namespace
}  // namespace mgpu::test
