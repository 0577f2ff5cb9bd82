package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// In the namespace of the chart, bindings and renewals of the Lease have the priority that those of kube-scheduler have.
func TestChartGivesSchedulingItsPriority(t *testing.T) {
	ctx := context.Background()
	for name, schema := range byName(chartObjects(t), "FlowSchema") {
		typed := &flowcontrolv1.FlowSchema{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(schema.Object, typed, true); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := plane.admin.FlowcontrolV1().FlowSchemas().Create(ctx, typed, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = plane.admin.FlowcontrolV1().FlowSchemas().Delete(ctx, schema.GetName(), metav1.DeleteOptions{})
		})
	}
	const binding = "POST /api/v1/namespaces/tenant/pods/x/binding"
	lease := func(name string) string {
		return fmt.Sprintf("GET /apis/coordination.k8s.io/v1/namespaces/%s/leases/%s", releaseNamespace, name)
	}
	for _, one := range []struct{ account, request, level string }{
		{"mgpu-extender", binding, "workload-high"},
		{"mgpu-extender", "GET /api/v1/nodes?limit=1", "workload-high"},
		{"mgpu-extender", lease("mgpu-extender"), "leader-election"},
		{"mgpu-scheduler", lease("mgpu-scheduler"), "leader-election"},
		{"mgpu-scheduler", binding, "workload-high"},
		{"default", binding, "workload-low"},
	} {
		waitFor(t, time.Minute, fmt.Sprintf("%s of %s to have the priority level %s", one.request, one.account, one.level),
			func() (bool, string) {
				level := priorityLevel(ctx, t, one.account, one.request)
				return level == one.level, level
			})
	}
}

// priorityLevel returns the priority level of a request that a service account of the chart's namespace sends.
func priorityLevel(ctx context.Context, t *testing.T, account, request string) string {
	t.Helper()
	transport, err := rest.TransportFor(&rest.Config{Host: plane.serverURL(), BearerToken: adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAFile: plane.authority.file()},
		Impersonate: rest.ImpersonationConfig{UserName: "system:serviceaccount:" + releaseNamespace + ":" + account,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + releaseNamespace, "system:authenticated"}}})
	if err != nil {
		t.Fatal(err)
	}
	method, path, _ := strings.Cut(request, " ")
	sent, err := http.NewRequestWithContext(ctx, method, plane.serverURL()+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(sent)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	levels, err := plane.admin.FlowcontrolV1().PriorityLevelConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range levels.Items {
		if string(levels.Items[i].UID) == answer.Header.Get("X-Kubernetes-PF-PriorityLevel-UID") {
			return levels.Items[i].Name
		}
	}
	return answer.Status
}
