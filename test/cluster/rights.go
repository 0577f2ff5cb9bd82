package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// applyRights applies the files of deploy/rbac.
func (c *ControlPlane) applyRights() error {
	files, err := filepath.Glob(deployPath("rbac", "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := c.applyRightsOf(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func (c *ControlPlane) applyRightsOf(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, document := range strings.Split(string(text), "\n---\n") {
		object, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), []byte(document))
		if err != nil {
			return err
		}
		if err := c.applyRight(object); err != nil {
			return err
		}
	}
	return nil
}

func (c *ControlPlane) applyRight(object runtime.Object) (err error) {
	ctx, options := context.Background(), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	switch one := object.(type) {
	case *corev1.ServiceAccount:
		_, err = c.admin.CoreV1().ServiceAccounts(one.Namespace).Create(ctx, one, options)
	case *corev1.Secret:
		_, err = c.admin.CoreV1().Secrets(one.Namespace).Create(ctx, one, options)
	case *rbacv1.Role:
		_, err = c.admin.RbacV1().Roles(one.Namespace).Create(ctx, one, options)
	case *rbacv1.RoleBinding:
		_, err = c.admin.RbacV1().RoleBindings(one.Namespace).Create(ctx, one, options)
	case *rbacv1.ClusterRole:
		_, err = c.admin.RbacV1().ClusterRoles().Create(ctx, one, options)
	case *rbacv1.ClusterRoleBinding:
		_, err = c.admin.RbacV1().ClusterRoleBindings().Create(ctx, one, options)
	case *admissionv1.ValidatingAdmissionPolicy:
		_, err = c.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, one, options)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		_, err = c.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, one, options)
	default:
		err = fmt.Errorf("%T is not supported here", object)
	}
	return err
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
