package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Request is a request of kube-scheduler, byte for byte.
type Request struct {
	Line   string
	Header http.Header
	Body   []byte
}

// Recorder is an extender that accepts all nodes and pods, and keeps the requests.
type Recorder struct {
	server *httptest.Server
	admin  kubernetes.Interface
	mutex  sync.Mutex
	last   map[string]Request // by verb
}

func newRecorder(admin kubernetes.Interface) *Recorder {
	recorder := &Recorder{admin: admin, last: map[string]Request{}}
	recorder.server = httptest.NewServer(http.HandlerFunc(recorder.answer))
	return recorder
}

func (r *Recorder) url() string { return r.server.URL + "/mgpu" }

// request returns the last request of a verb, and false if there was none.
func (r *Recorder) request(verb string) (Request, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	request, seen := r.last[verb]
	return request, seen
}

func (r *Recorder) answer(writer http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	verb := path.Base(request.URL.Path)
	header := request.Header.Clone()
	header.Set("Host", request.Host)
	header.Set("Content-Length", fmt.Sprint(request.ContentLength))
	reply, err := r.reply(verb, body)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	r.mutex.Lock()
	r.last[verb] = Request{request.Method + " " + request.RequestURI + " " + request.Proto, header, body}
	r.mutex.Unlock()
	_ = json.NewEncoder(writer).Encode(reply)
}

func (r *Recorder) reply(verb string, body []byte) (any, error) {
	var args struct {
		Nodes                         *corev1.NodeList
		NodeNames                     *[]string
		NodeNameToMetaVictims         json.RawMessage
		PodName, PodNamespace, PodUID string
		Node                          string
	}
	if err := json.Unmarshal(body, &args); err != nil {
		return nil, err
	}
	switch verb {
	case "filter":
		return map[string]any{"Nodes": args.Nodes, "NodeNames": args.NodeNames}, nil
	case "prioritize":
		return []any{}, nil
	case "preempt":
		return map[string]any{"NodeNameToMetaVictims": args.NodeNameToMetaVictims}, nil
	case "bind":
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: args.PodName, UID: types.UID(args.PodUID)},
			Target:     corev1.ObjectReference{Kind: "Node", Name: args.Node}}
		return map[string]any{"Error": ""}, r.admin.CoreV1().Pods(args.PodNamespace).Bind(
			context.Background(), binding, metav1.CreateOptions{})
	}
	return nil, fmt.Errorf("unknown verb %q", verb)
}
