package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// giveRole gives a ClusterRole to the user nobody in one namespace, until the end of the test.
func giveRole(ctx context.Context, t *testing.T, role, namespace string) {
	t.Helper()
	bindings := plane.admin.RbacV1().RoleBindings(namespace)
	_, err := bindings.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "nobody-" + role},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "nobody"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bindings.Delete(ctx, "nobody-"+role, metav1.DeleteOptions{}) })
}

// Who has the ClusterRole view in a namespace learns from kubectl mgpu why a pod there is pending, and with
// mgpu-viewer in the namespace of mgpu all that the extender knows, and gets no other right there.
func TestInstallAViewerAsksAboutHerPods(t *testing.T) {
	ctx := context.Background()
	extender := extenderByPortForward(ctx, t, "extender")
	const place = "kube-system"
	roles := plane.admin.RbacV1().ClusterRoles()
	role := &rbacv1.ClusterRole{}
	viewer := byName(chartObjects(t), "ClusterRole")["ClusterRole mgpu-viewer"]
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(viewer.Object, role); err != nil {
		t.Fatal(err)
	}
	if _, err := roles.Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = roles.Delete(ctx, role.Name, metav1.DeleteOptions{}) })

	namespace := newNamespace(ctx, t)
	create(ctx, t, newPod(namespace, "waits").container("c0", "6400", ""))
	giveRole(ctx, t, "view", namespace)
	ask := func(words ...string) (string, string, int) {
		return kubectlMgpu(t, nobodyToken, append(words, "--mgpu-namespace", place, "--metrics-port", fmt.Sprint(extender.metricsPort))...)
	}
	waitFor(t, 2*time.Minute, "what the pod says", func() (bool, string) {
		output, problems, _ := ask("explain", "waits", "-n", namespace)
		return strings.Contains(output, "MGPUPending: container c0 needs 64 whole cards of one node") &&
			strings.Contains(problems, "the ClusterRole mgpu-viewer permits it") &&
			strings.Contains(problems, "kubectl describe pod waits"), output + problems
	})
	if output, problems, code := kubectlMgpu(t, nobodyToken, "pods", "-n", namespace); code != 0 || !strings.Contains(output, "waits") {
		t.Errorf("pods: exit code %d, %q, %q", code, output, problems)
	}
	if output, problems, code := ask("nodes"); code != 1 || output != "" {
		t.Errorf("nodes without the role: exit code %d, %q, %q", code, output, problems)
	}

	giveRole(ctx, t, "mgpu-viewer", place)
	manifest := t.TempDir() + "/pod.yaml"
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: waits}\nspec:\n  containers:\n" +
		"  - {name: c0, resources: {limits: {" + domain + "/mgpu-core: \"6400\"}}}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		words []string
		want  string
	}{
		{[]string{"explain", "waits", "-n", namespace}, "/waits is pending: container c0 needs 64 whole cards of one node; "},
		{[]string{"nodes", "-o", "json"}, `"items"`},
		{[]string{"simulate", "-f", manifest, "-n", namespace}, "0 of 1 replica"},
	} {
		waitFor(t, time.Minute, fmt.Sprint(one.words), func() (bool, string) {
			output, problems, _ := ask(one.words...)
			return problems == "" && strings.Contains(output, one.want), output + problems
		})
	}
	tenant := clientOf(t, nobodyToken).CoreV1()
	_, secrets := tenant.Secrets(place).List(ctx, metav1.ListOptions{})
	_, others := tenant.Pods("").List(ctx, metav1.ListOptions{})
	removed := tenant.Pods(place).Delete(ctx, "none", metav1.DeleteOptions{})
	for what, err := range map[string]error{"secrets of mgpu": secrets, "pods of all namespaces": others, "deletes": removed} {
		if err == nil || !strings.Contains(err.Error(), "is forbidden") {
			t.Errorf("the viewer may: %s: %v", what, err)
		}
	}
}
