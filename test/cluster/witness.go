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

// Witness is a proxy between kube-scheduler and the extender that records the decisions about each pod.
type Witness struct {
	server   *httptest.Server
	extender *Extender
	mutex    sync.Mutex
	pods     map[types.UID]*Decision
}

// Decision has the results of the last scheduling cycle of a pod.
type Decision struct {
	fitting []string         // result of filter
	scores  map[string]int64 // result of prioritize; nil if it was not called
	bound   string           // the node of bind
	invalid string           // an invalid score
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
		w.note(verb, body, nil) // recorded before the test can see that the pod is bound
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

func (w *Witness) note(verb string, request, answered []byte) {
	var args struct {
		Pod    corev1.Pod
		PodUID types.UID
		Node   string
	}
	if json.Unmarshal(request, &args) != nil {
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
		d.invalid = err.Error()
	}
	if len(scores) == 0 {
		return // the response is for another pod
	}
	d.scores = map[string]int64{}
	for _, one := range scores {
		d.scores[one.Host] = one.Score
		if one.Score < 0 || one.Score > highestScore {
			d.invalid = fmt.Sprintf("%s has score %d", one.Host, one.Score)
		}
	}
}

// chosen returns the node with the score 10, or the only node that fits. It is an error if there is not
// exactly one.
func (d *Decision) chosen() (string, error) {
	if d.invalid != "" {
		return "", fmt.Errorf("prioritize: %s", d.invalid)
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

// decision returns the decision about a pod, and false if the extender was not called for it.
func (w *Witness) decision(pod types.UID) (Decision, bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	decision, called := w.pods[pod]
	if !called {
		return Decision{}, false
	}
	return *decision, true
}
