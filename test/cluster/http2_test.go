package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// http2Pods is the number of pods of a burst. Over HTTP/1.1 the binds of so many had up to 60 connections at once.
const http2Pods = 200

// Over HTTP/1.1 kube-scheduler opens a connection, with a handshake, for most binds of a burst. Connections one after
// the other would not be seen.
func TestKubeSchedulerUsesOneConnectionOverTLS(t *testing.T) {
	ctx := context.Background()
	extender, setup := plane.extenderWithCertificates(t)
	extender.start(t)
	extender.waitReady(t)
	extender.client.CloseIdleConnections()
	namespace := newNamespace(ctx, t)
	plane.createManyNodes(ctx, t, burstNodes)
	extender.waitNodes(t, burstNodes)
	history := plane.beginHistory(ctx, t, namespace)
	var pods []*PodBuilder
	for i := range http2Pods {
		pods = append(pods, newPod(namespace, fmt.Sprintf("pod-%03d", i)).share(shareCore, shareMemoryMiB))
	}
	createAll(ctx, t, pods)

	setup.extenderURL = extender.url()
	plane.startScheduler(t, setup)
	most := 0.0
	bound := func() float64 { return extender.metrics(t).with(bindsTotal, `outcome="bound"`) }
	for end := time.Now().Add(burstLimit); bound() < http2Pods && time.Now().Before(end); {
		most = max(most, extender.metrics(t).with("mgpu_extender_http_connections", `listener="verbs"`))
		time.Sleep(burstPollInterval / 5)
	}
	waitBoundCount(ctx, t, namespace, http2Pods)
	if most != 1 {
		t.Errorf("kube-scheduler had up to %.0f connections, want 1", most)
	}
	history.check(ctx, t)
}
