package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	markup    = `<img src=x onerror="document.title='broken'"><script>1</script>`
	backwards = "A100\u202egnp.exe\u0007\u200b\u2028"
)

// hostileNode creates a node whose cards have other models, and the longest name.
func (w *World) hostileNode(t testing.TB) string {
	t.Helper()
	label := strings.Repeat("n", 62)
	name := (strings.Repeat(label+".", 4) + "nnn")[:253]
	name = strings.TrimRight(name, ".")
	plane.createNodeOf(w.ctx, t, name, v100Node(3))
	nodes := plane.admin.CoreV1().Nodes()
	node, err := nodes.Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var annotation struct {
		Version int        `json:"version"`
		Cards   []cardJSON `json:"cards"`
	}
	if err := json.Unmarshal([]byte(node.Annotations[cardsKey]), &annotation); err != nil {
		t.Fatal(err)
	}
	annotation.Cards[0].UUID, annotation.Cards[1].UUID = "GPU-hostile-0", "GPU-hostile-1"
	annotation.Cards[0].Model, annotation.Cards[1].Model = markup, backwards
	annotation.Cards[2].Model, annotation.Cards[2].UUID = strings.Repeat("\u05d0", 40), `GPU-"'<b>&amp;`
	text, err := json.Marshal(annotation)
	if err != nil {
		t.Fatal(err)
	}
	node.Annotations[cardsKey] = string(text)
	if _, err := nodes.Update(w.ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestWebIsNotHarmedByHostileText(t *testing.T) {
	world := newWorld(t, 0)
	node := world.hostileNode(t)
	world.extender.waitNodes(t, 1)
	podName := strings.Repeat("p", 253)
	create(world.ctx, t, newPod(world.namespace, podName).share(10, 1024))
	waitBound(world.ctx, t, world.namespace, podName)
	// Whoever may write the status of pods, or their annotations, writes what is shown.
	waiting := create(world.ctx, t, newPod(world.namespace, "waiting").share(10, 1024).annotation(domain+"/gpu-model", markup).scheduler("none"))
	waiting.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: "Unschedulable", Message: "0/1 nodes are available: 1 " + markup + backwards + strings.Repeat("x", 3000)}}
	if _, err := plane.admin.CoreV1().Pods(world.namespace).UpdateStatus(world.ctx, waiting, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int64{1200, 375} {
		page := world.extender.openPage(t, "/web/", window(width, 800, 1, false))
		page.waitLive()
		page.waitRow(node, true)
		page.waitText("#list", markup)
		page.waitText("#list", `A100\u{202e}gnp.exe\u{7}\u{200b}\u{2028}`)
		page.click(fmt.Sprintf(`.row[data-key=%q]`, node))
		page.waitText("#detail-body", podName)
		page.waitText("#detail-body", `GPU-"'<b>&amp;`)
		page.expectHarmless(width)
		page.run(chromedp.Navigate(page.origin + "/web/#/pod/" + world.namespace + "/waiting"))
		page.waitText("#detail-body", `1 <img`)
		page.expectHarmless(width)
		page.run(chromedp.Navigate(page.origin + "/web/#/pod/%E2%80%AE%00%ff/" + strings.Repeat("%3Cimg%3E", 100)))
		page.waitText("#detail-title", `<img>`)
		page.waitText("#detail-body", "neither holds cards nor waits")
		page.expectHarmless(width)
		page.click("#detail-close")
		page.click("#tab-waiting")
		page.waitText(".row .reason", markup)
		page.expectHarmless(width)
	}
}

// expectHarmless checks that text has become neither an element nor an address, and that the page is as
// wide as its window.
func (p *Page) expectHarmless(width int64) {
	p.t.Helper()
	if title := eval[string](p, `document.title`); title != "mgpu: cards and pods" {
		p.t.Errorf("%d: the title is %q", width, title)
	}
	if found := eval[int](p, `document.querySelectorAll('img, b, main script, dialog script, iframe').length`); found != 0 {
		p.t.Errorf("%d: text has become %d elements", width, found)
	}
	if over := p.overflow(); over > 0 {
		p.t.Errorf("%d: the page is %d pixels wider than its window", width, over)
	}
	hidden := eval[bool](p, `/[\u0000-\u0008\u000b-\u001f\u202a-\u202e\u200b\u2066-\u2069]/.test(document.body.innerText)`)
	if hidden {
		p.t.Errorf("%d: the page has characters that change how text is shown", width)
	}
}

// test/common/http/host_test.cc has all headers.
func TestWebRefusesRequestsOfOtherSites(t *testing.T) {
	extender := plane.startExtender(t)
	page := extender.openPage(t, "/web/")
	page.waitLive()
	refuseAnotherHost(t, extender.metricsPort)
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-origin": http.StatusOK} {
		request, err := http.NewRequest(http.MethodGet, page.origin+"/inspect/cluster", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Sec-Fetch-Site": {site}, "Sec-Fetch-Mode": {"no-cors"}, "Sec-Fetch-Dest": {"image"}}
		if status, body, err := read(http.DefaultClient.Do(request)); err != nil || status != want {
			t.Errorf("a request of the kind %s: %d %.200s %v, want %d", site, status, body, err, want)
		}
	}
	page.mutex.Lock()
	page.violates = true
	page.mutex.Unlock()
	// Scripts of the page itself cannot make elements from text, nor run text.
	for _, attempt := range []string{
		`document.body.innerHTML = '<b>x</b>'`, `new Function('return 1')()`,
		`document.createElement('script').text = '1'`} {
		if eval[bool](page, `(() => { try { `+attempt+`; return true; } catch { return false; } })()`) {
			t.Errorf("the policy permits %s", attempt)
		}
	}
}
