package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The rights of the extender to patch pods/status end at its own condition.
func TestTheExtenderChangesOnlyItsConditionInTheStatusOfAPod(t *testing.T) {
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	client, err := plane.clientAs(extenderToken)
	if err != nil {
		t.Fatal(err)
	}
	create(ctx, t, newPod(namespace, "some").share(10, 1024).scheduler("nobody").annotation("kept", "yes"))
	patch := func(body string) error {
		_, err := client.CoreV1().Pods(namespace).Patch(ctx, "some", types.StrategicMergePatchType, []byte(body),
			metav1.PatchOptions{}, "status")
		return err
	}
	condition := func(name, message string) string {
		return fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True","message":%q}]}}`, name, message)
	}
	_, err = plane.admin.CoreV1().Pods(namespace).Patch(ctx, "some", types.StrategicMergePatchType,
		[]byte(condition("Ready", "set by kubelet")), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	refused := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'mgpu-extender-touch'") &&
			strings.Contains(err.Error(), "mgpu-extender may change no")
	}
	// The API server applies a new policy after a moment.
	waitFor(t, 2*time.Minute, "the policy to be applied", func() (bool, string) {
		err := patch(condition("Ready", fmt.Sprint(time.Now().UnixNano())))
		return refused(err), fmt.Sprint(err)
	})
	for name, body := range map[string]string{
		"another condition":    condition("PodScheduled", "x"),
		"a removed condition":  `{"status":{"conditions":[{"type":"Ready","$patch":"delete"}]}}`,
		"the phase":            `{"status":{"phase":"Failed"}}`,
		"a new field":          `{"status":{"reason":"x"}}`,
		"an annotation":        `{"metadata":{"annotations":{"added":"yes"}}}`,
		"a removed annotation": `{"metadata":{"annotations":{"kept":null}}}`,
		"a label":              `{"metadata":{"labels":{"a":"b"}}}`,
		"a finalizer":          `{"metadata":{"finalizers":["example.com/never"]}}`,
		"more than its condition": `{"status":{"phase":"Failed","conditions":[{"type":"` + touchedCondition +
			`","status":"True"}]}}`,
	} {
		if err := patch(body); !refused(err) {
			t.Errorf("%s: %v, want a refusal by the policy", name, err)
		}
	}
	for _, message := range []string{"a", "b"} {
		before := get(ctx, t, namespace, "some").ResourceVersion
		if err := patch(condition(touchedCondition, message)); err != nil {
			t.Errorf("its own condition: %v", err)
		}
		if get(ctx, t, namespace, "some").ResourceVersion == before {
			t.Error("its own condition did not change the resourceVersion")
		}
	}
}
