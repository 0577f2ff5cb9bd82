package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	slowBindTime = 25 * time.Millisecond
	slowBindPods = 300
	// Binds that may fail because the machine is slow, too.
	slowBindFailures = slowBindPods / 10
)

// startSlowBinds starts a proxy of the API server that forwards bindings at a limited rate, and everything else
// without a delay. It returns its URL.
func (c *ControlPlane) startSlowBinds(t testing.TB) string {
	t.Helper()
	forward := c.reverseProxy(t)
	var one sync.Mutex
	return serveProxy(t, http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if strings.HasSuffix(request.URL.Path, "/binding") {
			one.Lock()
			time.Sleep(slowBindTime)
			one.Unlock()
		}
		forward.ServeHTTP(response, request)
	}))
}

// kube-scheduler does not wait for a bind. If filter did not wait, all pods would be scheduled within a second, most
// of their binds would answer too late, and kube-scheduler would try these pods again.
func TestKubeSchedulerSchedulesNoFasterThanTheAPIServerBinds(t *testing.T) {
	ctx := context.Background()
	extender := plane.extenderOn(t, "http", http.DefaultClient)
	extender.follow(proxyKubeconfig(t, plane.startSlowBinds(t), extenderToken))
	extender.start(t)
	extender.waitReady(t)
	namespace := newNamespace(ctx, t)
	plane.createManyNodes(ctx, t, burstNodes)
	extender.waitNodes(t, burstNodes)
	var pods []*PodBuilder
	for i := range slowBindPods {
		pods = append(pods, newPod(namespace, fmt.Sprintf("pod-%03d", i)).share(shareCore, shareMemoryMiB))
	}
	createAll(ctx, t, pods)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	waitBoundCount(ctx, t, namespace, slowBindPods)
	metrics := extender.metrics(t)
	if failed := metrics.with(bindsTotal, `outcome="unavailable"`); failed > slowBindFailures {
		t.Errorf("%.0f binds were answered too late, want at most %d", failed, slowBindFailures)
	}
	if metrics.with("mgpu_extender_filters_delayed_total") == 0 {
		t.Error("no call of filter was delayed")
	}
}
