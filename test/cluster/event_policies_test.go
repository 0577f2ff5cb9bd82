package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionsSeconds is a histogram of the API server: how long the conditions of a policy took for each request.
const conditionsSeconds = "apiserver_admission_match_condition_evaluation_seconds"

var eventPolicies = []string{extenderEventsPolicy, pluginEventsPolicy}

// evaluated returns for how many requests to create an object the API server evaluated the conditions of a policy.
func evaluated(ctx context.Context, t *testing.T, policy string) float64 {
	t.Helper()
	text, err := plane.admin.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return readMetrics(string(text)).with(conditionsSeconds+"_count", fmt.Sprintf("name=%q", policy), `operation="CREATE"`)
}

// schedulersEvent is an Event as kube-scheduler writes them.
func schedulersEvent(name string) *eventsv1.Event {
	return &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, EventTime: metav1.NowMicro(),
		ReportingController: "default-scheduler", ReportingInstance: "a", Action: "Binding", Reason: "Scheduled",
		Regarding: corev1.ObjectReference{Kind: "Pod", Name: "some", Namespace: "default"}, Note: "x", Type: corev1.EventTypeNormal}
}

// Each condition would cost the API server two conversions of the Event, for each pod that any scheduler binds.
func TestPoliciesOfEventsAreNotEvaluatedForThoseOfKubeScheduler(t *testing.T) {
	ctx := context.Background()
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	before := map[string]float64{}
	waitFor(t, time.Minute, "the policies to be in force for Events of the core group", func() (bool, string) {
		for _, policy := range eventPolicies {
			before[policy] = evaluated(ctx, t, policy)
		}
		event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "core", Namespace: "default"}, Reason: "x",
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "some", Namespace: "default"}}
		if _, err := plane.admin.CoreV1().Events("default").Create(ctx, event, dryRun); err != nil {
			t.Fatal(err)
		}
		for _, policy := range eventPolicies {
			if evaluated(ctx, t, policy) == before[policy] {
				return false, policy
			}
		}
		return true, ""
	})
	for _, policy := range eventPolicies {
		before[policy] = evaluated(ctx, t, policy)
	}
	for i := range 5 {
		event := schedulersEvent(fmt.Sprint("scheduled-", i))
		if _, err := plane.admin.EventsV1().Events("default").Create(ctx, event, dryRun); err != nil {
			t.Fatal(err)
		}
	}
	for _, policy := range eventPolicies {
		if after := evaluated(ctx, t, policy); after != before[policy] {
			t.Errorf("%s was evaluated for %v Events of events.k8s.io, want none", policy, after-before[policy])
		}
	}
}

// The policies apply to Events of the core group only, so the rights must end there.
func TestNoProgramOfOursWritesEventsThroughAnotherGroup(t *testing.T) {
	ctx := context.Background()
	plugin := newPluginWorld(t)
	for name, token := range map[string]string{"mgpu-extender": extenderToken, "mgpu-device-plugin": plugin.podToken(t, plugin.own)} {
		events := clientOf(t, token).EventsV1().Events("default")
		_, err := events.Create(ctx, schedulersEvent("refused"), metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s writes an Event through events.k8s.io: %v, want Forbidden", name, err)
		}
	}
}
