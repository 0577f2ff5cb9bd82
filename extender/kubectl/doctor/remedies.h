// All that `kubectl mgpu doctor` advises, in one table.
// test/extender/kubectl/doctor_remedies_test.cc does what each sentence says, in a situation in
// which it is printed. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>

namespace mgpu::kubectl {

enum class Act {
  // A command, up to the first comma. NODE, POD and NAMESPACE are those of the object of the
  // finding.
  kRun,
  kChange,  // a change that the sentence names, and that takes more than a command
  kLook,    // where the cause is seen, which the doctor does not know
};

struct Remedy {
  Act act;
  const char* text;  // {} stands for a name
};

namespace remedies {

inline constexpr Remedy kUpgradeServer{Act::kChange, "upgrade Kubernetes to 1.30 or later"};
inline constexpr Remedy kUpgradeForPolicies{
    Act::kChange,
    "upgrade Kubernetes to 1.30 or later; deploy/SECURITY.md describes what is lost until then"};
inline constexpr Remedy kCheckKubeconfig{
    Act::kChange,
    "check the kubeconfig, its context, and that this machine reaches the API server"};
inline constexpr Remedy kOtherUser{Act::kChange, "use a context whose user has this right"};
inline constexpr Remedy kOtherUserForReviews{
    Act::kChange, "use a context whose user may create subjectaccessreviews"};
inline constexpr Remedy kOtherUserForKubelets{Act::kChange,
                                              "use a context whose user may get nodes/proxy"};
inline constexpr Remedy kTryAgain{Act::kLook,
                                  "try again; if it fails again, see the log of the server"};

inline constexpr Remedy kOtherNamespace{
    Act::kRun, "kubectl mgpu doctor --namespace NAMESPACE, or without --namespace"};
inline constexpr Remedy kOneInstallation{
    Act::kChange,
    "remove all but one, and then install the one that stays again, because they share "
    "ClusterRoles and policies; --namespace checks another one"};
inline constexpr Remedy kTrustNamespace{
    Act::kRun, "kubectl mgpu doctor --namespace {}, if this is your installation"};
inline constexpr Remedy kOneInstallationFirst{
    Act::kChange,
    "leave one installation in the cluster first: see the finding about the installation"};
inline constexpr Remedy kInstallAgain{
    Act::kChange, "install it again as it was installed; deploy/rbac/{} has what is missing"};
inline constexpr Remedy kHelmUpgrade{
    Act::kRun,
    "helm upgrade {} deploy/chart --namespace {} --reset-then-reuse-values --wait --set "
    "policies.enabled=true, with the chart of the installed version"};
inline constexpr Remedy kApplyFolder{
    Act::kRun, "kubectl apply -k FOLDER, with the kustomization.yaml of the installation"};
inline constexpr Remedy kApplyFile{Act::kRun, "kubectl apply -f deploy/rbac/{}"};
inline constexpr Remedy kApplyFileElsewhere{
    Act::kRun, "sed 's/kube-system/{}/' deploy/rbac/{} | kubectl apply -f -"};
inline constexpr Remedy kInstall{
    Act::kChange,
    "install it as deploy/INSTALL.md says, name its namespace with -n, or where it does not run in "
    "pods, its inspection listener with --url"};

inline constexpr Remedy kConfigureScheduler{
    Act::kChange,
    "let kube-scheduler call the extender, as deploy/INSTALL.md says for each kind of cluster"};
inline constexpr Remedy kOneBinder{
    Act::kChange,
    "let each kube-scheduler have one of them: remove the entry of the other project when its pods "
    "are gone, or remove mgpu's and run a second kube-scheduler for mgpu (scheduler.enabled of the "
    "chart)"};
inline constexpr Remedy kCheckConnection{
    Act::kChange,
    "check urlPrefix, tlsConfig and httpTimeout of the extender in the configuration of "
    "kube-scheduler"};
inline constexpr Remedy kCheckClients{
    Act::kChange,
    "check the client certificate of kube-scheduler and --tls-client-names of the extender, which "
    "counts from its start; a scan of the network is refused, too"};
inline constexpr Remedy kCompareExtenders{
    Act::kChange,
    "compare the extenders of its configuration with deploy/scheduler/kube-scheduler.yaml; "
    "nodeCacheCapable must be true; the extender counts from its start"};
inline constexpr Remedy kRenewAuthority{
    Act::kChange,
    "renew the CA as deploy/EXTENDER.md describes, and give it to each kube-scheduler"};
inline constexpr Remedy kRenewCertificate{
    Act::kChange,
    "renew it; where the extender makes its certificates itself, its log has the reason why it "
    "does not"};
inline constexpr Remedy kSeeExtender{Act::kLook, "see the findings about the extender"};
inline constexpr Remedy kCreatePod{Act::kChange, "create a pod with cards, and run this again"};
inline constexpr Remedy kExplain{Act::kLook,
                                 "kubectl mgpu explain POD --namespace NAMESPACE has the reasons"};
inline constexpr Remedy kSynchronize{
    Act::kChange, "synchronize the clocks of the machines, for example with NTP"};
inline constexpr Remedy kRepairObject{Act::kChange, "repair or delete the object"};

inline constexpr Remedy kSeePod{
    Act::kLook,
    "see kubectl logs and kubectl describe pod, and the sentences below, for the reason"};
inline constexpr Remedy kReachListener{
    Act::kChange,
    "kubectl port-forward needs the right to create pods/portforward, and the port of "
    "--metrics-port; --url connects to the listener without kubectl"};
inline constexpr Remedy kReadListener{
    Act::kChange,
    "the listener of --metrics-bind-address serves metrics and inspection on loopback, or with a "
    "certificate (--metrics-tls-cert-file) to users with the ClusterRoles of "
    "deploy/rbac/readers.yaml"};
inline constexpr Remedy kSeeExtenderLog{Act::kLook, "the log of the extender has the reason"};
inline constexpr Remedy kCheckNetwork{Act::kChange,
                                      "check the network between them, and the extender's log"};
inline constexpr Remedy kLetChange{
    Act::kChange,
    "let the service account of the extender patch pods/status of each pod; kubectl get events -A "
    "--field-selector reason=MGPUCannotChangePod names the pods, and what refuses it"};
inline constexpr Remedy kSeeSkipped{Act::kLook, "the log of the extender names each of them"};
inline constexpr Remedy kAwaitRollout{
    Act::kChange,
    "wait for the end of the rollout; kubectl rollout status shows what it waits for"};
inline constexpr Remedy kOtherClient{Act::kChange,
                                     "use the kubectl-mgpu of the extender's release"};
inline constexpr Remedy kUpgradeSteps{Act::kChange,
                                      "upgrade step by step: minor versions may differ by one"};

inline constexpr Remedy kEndHolder{
    Act::kChange,
    "find who writes it (kubectl get lease -n {} {} -o yaml), end that, and restart the extender"};
inline constexpr Remedy kSeeReplicas{
    Act::kLook, "see whether the pods of the extender run and reach the API server"};
inline constexpr Remedy kSeeStart{
    Act::kLook,
    "see why the extender does not become ready, or name its namespace with -n and its Lease with "
    "--lease-name"};
inline constexpr Remedy kSeeEndpoints{
    Act::kLook,
    "the extender that leads writes them: see its log, and its right to update endpointslices"};
inline constexpr Remedy kRemoveEndpoints{
    Act::kChange,
    "the extender that leads writes the EndpointSlice: see its log, and delete EndpointSlices of "
    "others"};

inline constexpr Remedy kLabelNodes{
    Act::kRun,
    "kubectl label node NODE {}/mgpu-node=true, for each node with GPUs from which NVIDIA's device "
    "plugin and its pods are gone; or install node-feature-discovery"};
inline constexpr Remedy kSelectNode{
    Act::kChange, "see whether the DaemonSet mgpu-device-plugin selects the node (labels, taints)"};
inline constexpr Remedy kSeePluginPod{
    Act::kLook, "see kubectl logs and kubectl describe pod of that pod for the reason"};
inline constexpr Remedy kSeePluginLog{Act::kLook,
                                      "the device plugin writes it again within a minute; if not, "
                                      "see its log"};
inline constexpr Remedy kCorrectProfile{
    Act::kChange, "correct the labels of the node, or the profiles of the chart"};
inline constexpr Remedy kSeeCard{Act::kLook, "see the message, and the log of the device plugin"};
inline constexpr Remedy kSeeReady{
    Act::kLook,
    "kubelet reports it while the device plugin is registered: see the condition MGPUReady"};
inline constexpr Remedy kRemoveAnnotation{Act::kRun,
                                          "kubectl annotate node NODE {}-, which removes it"};
inline constexpr Remedy kUncordon{
    Act::kRun,
    "kubectl mgpu uncordon-card NODE {}, and so for the others, lets pods be placed on them again"};
inline constexpr Remedy kRemoveRelease{
    Act::kRun, "kubectl label node NODE {}-, when the work on the node is done"};
inline constexpr Remedy kFollowMessage{
    Act::kLook, "follow the message; the log of the device plugin has the details"};
inline constexpr Remedy kRemovePlugin{
    Act::kChange,
    "drain the node, and remove that device plugin from it; with the GPU operator by the label "
    "nvidia.com/gpu.deploy.device-plugin=false"};
inline constexpr Remedy kRemoveDra{Act::kChange,
                                   "drain the node, and remove NVIDIA's DRA driver from it"};
inline constexpr Remedy kRemoveGate{Act::kChange,
                                    "remove it from featureGates of the configuration of kubelet"};
inline constexpr Remedy kSetGates{
    Act::kChange,
    "set featureGates: {ResourceHealthStatus: false, ResourceHealthStatusMessage: false} in the "
    "configuration of kubelet"};
inline constexpr Remedy kUpgradeKubelet{Act::kChange, "upgrade kubelet"};

inline constexpr Remedy kDeletePod{
    Act::kRun,
    "kubectl delete pod POD --namespace NAMESPACE, so that its controller creates it again, and "
    "see that the policies of deploy/rbac/policies.yaml are there"};
inline constexpr Remedy kDeleteUnbound{
    Act::kRun,
    "kubectl delete pod POD --namespace NAMESPACE, when kube-scheduler has bindVerb in the "
    "extenders of its configuration, and ignorable: false (deploy/scheduler/kube-scheduler.yaml)"};
inline constexpr Remedy kDeleteMoved{
    Act::kRun, "kubectl delete pod POD --namespace NAMESPACE, unless the card or node comes back"};
inline constexpr Remedy kCorrectManifest{
    Act::kChange,
    "remove them from the manifest that creates the pod, and see that the policies of "
    "deploy/rbac/policies.yaml are there"};
inline constexpr Remedy kDeleteDrifting{
    Act::kRun,
    "kubectl delete pod POD --namespace NAMESPACE, which ends it; extender/kubectl/README.md "
    "explains each kind of drift"};
inline constexpr Remedy kDeleteOverfull{
    Act::kChange,
    "kubectl mgpu drift -A -o wide names the pods on each of them, as /inspect/node?name=NODE of "
    "the extender does, and says which to delete"};

}  // namespace remedies

using namespace remedies;

inline constexpr std::array kRemedies = {
    &kUpgradeServer,
    &kUpgradeForPolicies,
    &kCheckKubeconfig,
    &kOtherUser,
    &kOtherUserForReviews,
    &kOtherUserForKubelets,
    &kTryAgain,
    &kOtherNamespace,
    &kOneInstallation,
    &kTrustNamespace,
    &kOneInstallationFirst,
    &kInstallAgain,
    &kHelmUpgrade,
    &kApplyFolder,
    &kApplyFile,
    &kApplyFileElsewhere,
    &kInstall,
    &kConfigureScheduler,
    &kOneBinder,
    &kCheckConnection,
    &kCheckClients,
    &kCompareExtenders,
    &kRenewAuthority,
    &kRenewCertificate,
    &kSeeExtender,
    &kCreatePod,
    &kExplain,
    &kSynchronize,
    &kRepairObject,
    &kSeePod,
    &kReachListener,
    &kReadListener,
    &kSeeExtenderLog,
    &kCheckNetwork,
    &kLetChange,
    &kSeeSkipped,
    &kAwaitRollout,
    &kOtherClient,
    &kUpgradeSteps,
    &kEndHolder,
    &kSeeReplicas,
    &kSeeStart,
    &kSeeEndpoints,
    &kRemoveEndpoints,
    &kLabelNodes,
    &kSelectNode,
    &kSeePluginPod,
    &kSeePluginLog,
    &kCorrectProfile,
    &kSeeCard,
    &kSeeReady,
    &kRemoveAnnotation,
    &kUncordon,
    &kRemoveRelease,
    &kFollowMessage,
    &kRemovePlugin,
    &kRemoveDra,
    &kRemoveGate,
    &kSetGates,
    &kUpgradeKubelet,
    &kDeletePod,
    &kDeleteUnbound,
    &kDeleteMoved,
    &kCorrectManifest,
    &kDeleteDrifting,
    &kDeleteOverfull,
};

// One of these with its names; empty: nothing has to be done. Nothing else can be advised.
class Advice {
 public:
  Advice() = default;
  template <class... Names>
  Advice(const Remedy& remedy, const Names&... names) : remedy_(&remedy), text_(remedy.text) {
    for (const std::string& name : std::initializer_list<std::string>{std::string(names)...}) {
      const std::size_t at = text_.find("{}");
      if (at != std::string::npos) text_.replace(at, 2, name);
    }
  }

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  const Remedy* remedy() const { return remedy_; }
  bool operator==(const Advice& other) const = default;

 private:
  const Remedy* remedy_ = nullptr;
  std::string text_;
};

}  // namespace mgpu::kubectl
