package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// tenant returns a client that may read the pods and Events of the namespace, and nothing else.
func (w *World) tenant(t *testing.T) kubernetes.Interface {
	t.Helper()
	const name = "tenant"
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "events"}, Verbs: []string{"get", "list"}}}}
	if _, err := plane.admin.RbacV1().Roles(w.namespace).Create(w.ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}}
	if _, err := plane.admin.RbacV1().RoleBindings(w.namespace).Create(w.ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: plane.serverURL(), BearerToken: adminToken, TLSClientConfig: rest.TLSClientConfig{CAFile: plane.authority.file()},
		Impersonate: rest.ImpersonationConfig{UserName: name}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// The tenant may read nothing of the extender.
func TestAPendingPodSaysWhyToThoseWhoMayReadItsEvents(t *testing.T) {
	world := newWorld(t, 1)
	world.fillEachCard(t, 60)
	tenant := world.tenant(t)
	if _, err := tenant.CoreV1().Pods("kube-system").List(world.ctx, metav1.ListOptions{}); err == nil {
		t.Fatal("the tenant may list the pods of kube-system")
	}
	create(world.ctx, t, world.pod("waits").share(60, 8000))
	create(world.ctx, t, world.pod("invalid").container("c0", "50", ""))
	create(world.ctx, t, world.pod("model").share(10, 1024).annotation("vke.volcengine.com/gpu-model", "H900"))
	for pod, wants := range map[string][]string{
		"waits": {"container c0 needs a card with mgpu-core 60 and mgpu-memory 8000 free; the nearest card has mgpu-core 40 and",
			"It fits on " + world.nodes[0] + " with mgpu-core 40 instead of 60 for container c0, or on " + world.nodes[0] + " when pod full-"},
		"invalid": {`invalid request: container "c0" asks for mgpu-core 50 and no mgpu-memory; add mgpu-memory in MiB`},
		"model":   {"no card matches", `names "H900", and no card of the cluster has such a name; their models are `},
	} {
		var message string
		waitFor(t, 2*time.Minute, "an Event about "+pod, func() (bool, string) {
			list, err := tenant.CoreV1().Events(world.namespace).List(world.ctx,
				metav1.ListOptions{FieldSelector: "reason=MGPUPending,involvedObject.name=" + pod})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Items) > 0 {
				message = list.Items[0].Message
			}
			return len(list.Items) == 1, fmt.Sprint(len(list.Items))
		})
		for _, want := range wants {
			if !strings.Contains(message, want) {
				t.Errorf("%s: %q does not contain %q", pod, message, want)
			}
		}
	}
}
