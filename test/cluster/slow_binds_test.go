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
	// Those in progress before the extender delays filter.
	bindsBeforeDelay = 64
	// Binds that may fail because the machine is slow, too. If filter did not wait, most of them would.
	slowBindFailures = slowBindPods / 3
)

// startSlowBinds starts a proxy of the API server that forwards bindings at a limited rate, and everything else
// without a delay. It returns its URL, and the most bindings that were there at a time.
func (c *ControlPlane) startSlowBinds(t testing.TB) (url string, most func() int) {
	t.Helper()
	forward := c.reverseProxy(t)
	var one, counting sync.Mutex
	waiting, highest := 0, 0
	count := func(change int) {
		counting.Lock()
		defer counting.Unlock()
		waiting += change
		highest = max(highest, waiting)
	}
	url = serveProxy(t, http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if strings.HasSuffix(request.URL.Path, "/binding") {
			count(1)
			defer count(-1)
			one.Lock()
			time.Sleep(slowBindTime)
			one.Unlock()
		}
		forward.ServeHTTP(response, request)
	}))
	return url, func() int {
		counting.Lock()
		defer counting.Unlock()
		return highest
	}
}

// kube-scheduler does not wait for a bind. If filter did not wait, all pods would be scheduled within a second, most
// of their binds would answer too late, and kube-scheduler would try these pods again.
func TestKubeSchedulerSchedulesNoFasterThanTheAPIServerBinds(t *testing.T) {
	ctx := context.Background()
	extender := plane.extenderOn(t, "http", http.DefaultClient)
	url, most := plane.startSlowBinds(t)
	extender.follow(proxyKubeconfig(t, url, extenderToken))
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
	// A busy machine schedules no faster than this proxy binds.
	if delayed := metrics.with("mgpu_extender_filters_delayed_total"); delayed == 0 && most() > bindsBeforeDelay {
		t.Errorf("no call of filter was delayed, with %d binds at a time", most())
	}
}
