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
