package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Blocks of deploy/INSTALL.md that give an installation by hand its rights and policies.
const (
	appliesRights    = "sed 's/mgpu-system/kube-system/g' deploy/manifests/mgpu.yaml"
	permitsEvictions = "kubectl create clusterrole mgpu-device-plugin-evict"
)

// applyRights runs these blocks as users do.
func (c *ControlPlane) applyRights(begins ...string) error {
	blocks, err := installationBlocks()
	if err != nil {
		return err
	}
	for _, begin := range begins {
		at := slices.IndexFunc(blocks, func(block string) bool { return strings.HasPrefix(block, begin) })
		if at < 0 {
			return fmt.Errorf("deploy/INSTALL.md has no commands that begin with %q", begin)
		}
		command := exec.Command("bash", "-c", "set -euo pipefail\n"+blocks[at])
		command.Dir = repositoryPath()
		command.Env = []string{"PATH=" + c.binaries + ":/usr/bin:/bin", "KUBECONFIG=" + c.kubeconfig(adminToken), "HOME=" + c.folder}
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", blocks[at], err, output)
		}
	}
	return nil
}

// grantPods gives a user all verbs for these resources of a namespace.
func grantPods(ctx context.Context, t testing.TB, namespace, user string, resources ...string) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: resources,
		Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}}}}
	if _, err := plane.admin.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}
	_, err := plane.admin.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// withoutBinding deletes a ClusterRoleBinding until the end of the test, and waits until it has no effect.
func withoutBinding(ctx context.Context, t testing.TB, name string, gone func() bool) {
	t.Helper()
	bindings := plane.admin.RbacV1().ClusterRoleBindings()
	binding, err := bindings.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bindings.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		binding.ResourceVersion, binding.UID = "", ""
		if _, err := bindings.Create(context.Background(), binding, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		waitFor(t, time.Minute, "the rights of "+name, func() (bool, string) { return !gone(), "" })
	})
	waitFor(t, time.Minute, "no rights of "+name, func() (bool, string) { return gone(), "" })
}
