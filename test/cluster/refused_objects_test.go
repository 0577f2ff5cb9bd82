package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An object that the API server refuses to change, or to bind, costs itself and no other pod.

// deny creates a policy that refuses an operation on a resource where the CEL expression holds. It
// returns when the API server applies it, which `refused` shows, and the policy ends with the test or the returned function.
func deny(ctx context.Context, t *testing.T, operation admissionv1.OperationType, resource, where string, refused func() error) func() {
	t.Helper()
	name, fail := strings.ToLower(t.Name())[4:], admissionv1.Fail
	policies, bindings := plane.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies(),
		plane.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	rule := admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{operation},
		Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}}}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "not-the-test",
				Expression: `request.userInfo.username == "system:serviceaccount:kube-system:mgpu-extender" || has(request.dryRun) && request.dryRun`}},
			Validations: []admissionv1.Validation{{Expression: "!(" + where + ")", Message: "refused by a test"}}}}
	if _, err := policies.Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	end := func() {
		_ = bindings.Delete(ctx, name, metav1.DeleteOptions{})
		_ = policies.Delete(ctx, name, metav1.DeleteOptions{})
	}
	t.Cleanup(end)
	applied := func() (bool, string) {
		err := refused()
		return err != nil && strings.Contains(err.Error(), "refused by a test"), fmt.Sprint(err)
	}
	waitFor(t, time.Minute, "the policy to apply", applied)
	return func() {
		end()
		waitFor(t, time.Minute, "the policy to end", func() (bool, string) {
			applies, seen := applied()
			return !applies, seen
		})
	}
}

// bindVerb calls the bind verb for a pod, as kube-scheduler does.
func (e *Extender) bindVerb(t *testing.T, pod *corev1.Pod, node string) string {
	t.Helper()
	_, answer, err := e.post("/mgpu/bind", strings.NewReader(fmt.Sprintf(
		`{"PodName":%q,"PodNamespace":%q,"PodUID":%q,"Node":%q}`, pod.Name, pod.Namespace, pod.UID, node)))
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// The API server refuses each binding in such a namespace before it looks at its preconditions. Its
// pods are the first of the cluster, by name.
func TestANamespaceThatIsBeingDeletedDoesNotHoldUpAStart(t *testing.T) {
	ctx := context.Background()
	const namespace = "aaa-ends"
	if err := plane.createNamespace(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	left := newPod(namespace, "left").share(10, 1024).scheduler("nobody")
	left.pod.Finalizers = []string{"example.com/never"}
	create(ctx, t, left)
	t.Cleanup(func() {
		_, _ = plane.admin.CoreV1().Pods(namespace).Patch(ctx, "left", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		removePods(namespace)
	})
	if err := plane.admin.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// No controller does it here. The finalizer keeps the pod.
	if err := plane.admin.CoreV1().Pods(namespace).Delete(ctx, "left", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	node := plane.createNodes(ctx, t, "gpu-", 1)[0]
	pod := create(ctx, t, newPod(newNamespace(ctx, t), "some").share(10, 1024).scheduler("nobody"))
	extender := plane.extenderOn(t, "http", http.DefaultClient)
	extender.start(t)
	extender.waitReady(t)
	if answer := extender.bindVerb(t, pod, node); !strings.Contains(answer, `"Error":""`) {
		t.Error("bind: ", answer)
	}
	// A pod that is being deleted cannot be bound by anybody.
	if isTouched(get(ctx, t, namespace, "left")) || !isTouched(get(ctx, t, pod.Namespace, pod.Name)) {
		t.Error("the start has changed a pod that is being deleted, or has not changed another one")
	}
}

// The first bind that the policy does not refuse checks the preconditions.
func TestAPolicyOnBindingsDoesNotHoldUpAStart(t *testing.T) {
	ctx := context.Background()
	node := plane.createNodes(ctx, t, "gpu-", 1)[0]
	pod := create(ctx, t, newPod(newNamespace(ctx, t), "some").share(10, 1024).scheduler("nobody"))
	allow := deny(ctx, t, admissionv1.Create, "pods/binding", "true", func() error {
		return plane.admin.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
			Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	})
	extender := plane.extenderOn(t, "http", http.DefaultClient)
	extender.start(t)
	extender.waitReady(t)
	if answer := extender.bindVerb(t, pod, node); !strings.Contains(answer, "refused by a test") {
		t.Error("bind while the policy refuses it: ", answer)
	}
	allow()
	if answer := extender.bindVerb(t, pod, node); !strings.Contains(answer, `"Error":""`) {
		t.Error("bind: ", answer)
	}
}

// A policy freezes a namespace, and leaves out kube-scheduler and nodes. A pod that waits there is not bound, and what a
// late binding of it could take is kept free; other pods are bound meanwhile.
func TestAPodThatCannotBeChangedDoesNotHoldUpAStart(t *testing.T) {
	ctx := context.Background()
	node := plane.createNodes(ctx, t, "gpu-", 1)[0]
	waits := create(ctx, t, newPod(newNamespace(ctx, t), "waits").share(30, 1024).scheduler("nobody"))
	const others = "others-than-the-frozen-pod"
	if err := plane.createNamespace(ctx, others); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removePods(others) })
	create(ctx, t, newPod(others, "pending").share(10, 1024).scheduler("nobody"))
	thaw := deny(ctx, t, admissionv1.Update, "pods/status", fmt.Sprintf("object.metadata.namespace == %q", waits.Namespace), func() error {
		_, err := plane.admin.CoreV1().Pods(waits.Namespace).Patch(ctx, waits.Name, types.MergePatchType,
			[]byte(`{"status":{"message":"a"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		return err
	})
	extender := plane.extenderOn(t, "http", http.DefaultClient)
	extender.start(t)
	extender.waitReady(t)
	if _, body, err := extender.get("/readyz"); err != nil || !strings.Contains(body, "1 pod that cannot be changed") {
		t.Error("/readyz: ", body, err)
	}
	if pods := extender.metrics(t).with("mgpu_extender_unsettled_pods"); pods != 1 {
		t.Error("mgpu_extender_unsettled_pods is ", pods)
	}
	fits := create(ctx, t, newPod(others, "fits").share(70, 1024).scheduler("nobody"))
	if answer := extender.bindVerb(t, fits, node); !strings.Contains(answer, `"Error":""`) {
		t.Error("bind: ", answer)
	}
	// One pod on each of the other cards, and one too many.
	for card := range cardsOfEachNode {
		more := create(ctx, t, newPod(others, fmt.Sprint("more-", card)).share(70, 1024).scheduler("nobody"))
		answer := extender.bindVerb(t, more, node)
		if fits := card < cardsOfEachNode-1; strings.Contains(answer, `"Error":""`) != fits {
			t.Errorf("bind of pod %d with 70 %%: %s", card, answer)
		}
	}
	whole := create(ctx, t, newPod(others, "beside").share(30, 1024).scheduler("nobody"))
	if answer := extender.bindVerb(t, whole, node); !strings.Contains(answer, "kept") {
		t.Error("bind of what the frozen pod could take: ", answer)
	}
	waitFor(t, time.Minute, "an Event on the pod", func() (bool, string) {
		list, err := plane.admin.CoreV1().Events(waits.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=MGPUCannotChangePod"})
		return err == nil && len(list.Items) == 1 && list.Items[0].InvolvedObject.Name == waits.Name, fmt.Sprint(err)
	})
	thaw()
	waitFor(t, time.Minute, "the pod to be changed", func() (bool, string) {
		_, body, err := extender.get("/readyz")
		return err == nil && !strings.Contains(body, "cannot be changed"), fmt.Sprint(body, err)
	})
	if answer := extender.bindVerb(t, whole, node); !strings.Contains(answer, `"Error":""`) {
		t.Error("bind after the pod was changed: ", answer)
	}
}
