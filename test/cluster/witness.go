package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Witness stands between kube-scheduler and the extender, passes everything on as it is, and keeps what
// was said of each pod.
type Witness struct {
	server   *httptest.Server
	extender *Extender
	mutex    sync.Mutex
	pods     map[types.UID]*Decision
}

// Decision is what the last round said of a pod.
type Decision struct {
	fitting     []string         // filter's
	scores      map[string]int64 // prioritize's; nil where the scheduler did not ask
	bound       string           // where the scheduler then had it bound
	unexplained string           // a score that cannot be
}

const highestScore = 10

func startWitness(t testing.TB, extender *Extender) *Witness {
	witness := &Witness{extender: extender, pods: map[types.UID]*Decision{}}
	witness.server = httptest.NewServer(http.HandlerFunc(witness.pass))
	t.Cleanup(witness.server.Close)
	return witness
}

func (w *Witness) url() string { return w.server.URL + "/mgpu" }

func (w *Witness) pass(writer http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	verb := path.Base(request.URL.Path)
	if verb == "bind" {
		w.note(verb, body, nil) // before the pod is seen to be bound
	}
	status, answer, err := w.extender.post(request.URL.Path, bytes.NewReader(body))
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadGateway)
		return
	}
	if verb != "bind" {
		w.note(verb, body, []byte(answer))
	}
	writer.Header().Set("Content-Type", "application/json")
	writer.WriteHeader(status)
	_, _ = writer.Write([]byte(answer))
}

func (w *Witness) note(verb string, asked, answered []byte) {
	var args struct {
		Pod    corev1.Pod
		PodUID types.UID
		Node   string
	}
	if json.Unmarshal(asked, &args) != nil {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch verb {
	case "filter":
		var reply struct{ NodeNames []string }
		_ = json.Unmarshal(answered, &reply)
		w.pods[args.Pod.UID] = &Decision{fitting: reply.NodeNames}
	case "prioritize", "prioritize-non-gpu":
		w.of(args.Pod.UID).noteScores(answered)
	case "bind":
		w.of(args.PodUID).bound = args.Node
	}
}

func (w *Witness) of(pod types.UID) *Decision {
	if w.pods[pod] == nil {
		w.pods[pod] = &Decision{}
	}
	return w.pods[pod]
}

func (d *Decision) noteScores(answered []byte) {
	var scores []struct {
		Host  string
		Score int64
	}
	if err := json.Unmarshal(answered, &scores); err != nil {
		d.unexplained = err.Error()
	}
	if len(scores) == 0 {
		return // another call's pod
	}
	d.scores = map[string]int64{}
	for _, one := range scores {
		d.scores[one.Host] = one.Score
		if one.Score < 0 || one.Score > highestScore {
			d.unexplained = fmt.Sprintf("%s has score %d", one.Host, one.Score)
		}
	}
}

// chosen is the one node that the extender named: that with 10, or the only one that fits. Errors: more
// or fewer than one.
func (d *Decision) chosen() (string, error) {
	if d.unexplained != "" {
		return "", fmt.Errorf("prioritize: %s", d.unexplained)
	}
	best := d.fitting
	if d.scores != nil {
		best = nil
		for node, score := range d.scores {
			if score == highestScore {
				best = append(best, node)
			}
		}
	}
	if len(best) != 1 {
		slices.Sort(best)
		return "", fmt.Errorf("%d nodes have %d or are the only one that fits: %v", len(best), highestScore, best)
	}
	return best[0], nil
}

// decision is false for a pod that the scheduler did not ask about.
func (w *Witness) decision(pod types.UID) (Decision, bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	decision, asked := w.pods[pod]
	if !asked {
		return Decision{}, false
	}
	return *decision, true
}
