package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// otherNamespace creates a namespace with a pod for each share, and waits until they are bound.
func (w *World) otherNamespace(t testing.TB, name string, cores ...int) {
	t.Helper()
	if err := plane.createNamespace(w.ctx, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removePods(name) })
	for i, core := range cores {
		pod := fmt.Sprintf("p%d", i)
		create(w.ctx, t, newPod(name, pod).share(core, 2048))
		waitBound(w.ctx, t, name, pod)
	}
}

// annotate sets an annotation of a node.
func (w *World) annotate(t testing.TB, name, key, value string) {
	t.Helper()
	nodes := plane.admin.CoreV1().Nodes()
	node, err := nodes.Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Annotations[key] = value
	if _, err := nodes.Update(w.ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestWebColorsAreThoseOfNamespacesWithTheirSums(t *testing.T) {
	world := newWorld(t, 2)
	world.otherNamespace(t, "blue", 30, 20, 10)
	world.otherNamespace(t, "green", 50, 25)
	page := world.extender.openPage(t, "/web/")
	page.waitLive()
	page.waitText("[data-total=pods]", "5 pods")
	legend := map[string]string{"blue": "0.6 cards · 6 GiB · 3 pods", "green": "0.8 cards · 4 GiB · 2 pods"}
	colors := map[string]string{}
	for name, sums := range legend {
		entry := fmt.Sprintf("#legend [data-space=%s]", name)
		page.waitText(entry, name+" "+sums)
		colors[name] = eval[string](page, `document.querySelector(%s + ' .dot').classList[1]`, entry)
	}
	if colors["blue"] == colors["green"] || !strings.HasPrefix(colors["blue"], "space-") {
		t.Fatalf("the colors are %v", colors)
	}
	// Every bar of a pod has the color of its namespace, on all nodes, and the bars of the sums have them too.
	page.click("#tab-pods")
	page.waitText("#count", "5 pods")
	dots := eval[[]string](page, `[...document.querySelectorAll('.row')].map((row) => row.dataset.key.split('/')[0] + ' ' + row.querySelector('.dot').classList[1])`)
	slices.Sort(dots)
	dots = slices.Compact(dots)
	if want := []string{"blue " + colors["blue"], "green " + colors["green"]}; !slices.Equal(dots, want) {
		t.Errorf("rows of pods have the colors %q, want %q", dots, want)
	}
	page.click("#tab-nodes")
	page.waitRow(world.nodes[0], true)
	parts := eval[[]string](page, `[...document.querySelectorAll('.row .core .part')].map((part) => part.classList[1])`)
	slices.Sort(parts)
	want := append(slices.Repeat([]string{colors["blue"]}, 3), colors["green"], colors["green"])
	slices.Sort(want)
	if !slices.Equal(parts, want) {
		t.Errorf("bars of cards have the colors %q, want %q", parts, want)
	}
	if width := eval[string](page, `document.querySelector(%s).style.width`, "[data-total=core] .stack > ."+colors["green"]); !strings.HasPrefix(width, "4.6875") {
		t.Errorf("the compute of green is %s wide, want 75 of 1,600", width)
	}
	// A namespace is also a search.
	page.click("#legend [data-space=blue]")
	page.wait("the search for the namespace", `document.getElementById('query').value === 'blue/'`, `document.getElementById('query').value`)
	page.click("#tab-pods")
	page.waitText("#count", "3 of 5 pods")
}

func TestWebShowsWhatNeedsAttention(t *testing.T) {
	world := newWorld(t, 3)
	page := world.extender.openPage(t, "/web/")
	page.waitLive()
	page.waitText("[data-what=well]", "Nothing needs attention")
	page.waitText("[data-what=free]", "24 cards free")
	world.breakCard(t, world.nodes[1])
	world.annotate(t, world.nodes[2], domain+"/mgpu-cordoned-cards", "3")
	create(world.ctx, t, world.pod("large").wholeCards(9))
	for what, text := range map[string]string{"pending": "1 pod pending", "unhealthy": "1 card unhealthy: XID 79", "cordoned": "1 card cordoned", "free": "22 cards free"} {
		page.waitText(fmt.Sprintf("[data-what=%s] strong", what), text)
	}
	page.waitText("[data-what=unhealthy] small", "gpu-01 card 0 for 4 h")
	page.waitText("[data-what=cordoned] small", "gpu-02 card 3")
	page.wait("the good news to go", `!document.querySelector('[data-what=well]')`, `document.getElementById('attention').innerText`)
	// Each leads to what it is about, with the keyboard.
	for what, want := range map[string][]string{"unhealthy": {"gpu-01"}, "cordoned": {"gpu-02"}, "pending": {world.namespace + "/large"}} {
		eval[bool](page, `(document.querySelector('[data-what=' + %s + '] button').focus(), true)`, what)
		page.press(kb.Enter)
		page.wait("the rows of "+what, fmt.Sprintf(`[...document.querySelectorAll('#list .row')].map((row) => row.dataset.key).join() === %q`, strings.Join(want, ",")),
			`document.getElementById('list').innerText`)
	}
	// What changes leaves the focus where it is.
	deleteNow(world.ctx, t, world.namespace, "large")
	page.wait("the pending pod to go", `!document.querySelector('[data-what=pending]')`, `document.getElementById('attention').innerText`)
	eval[bool](page, `(document.querySelector('[data-what=cordoned] button').focus(), true)`)
	create(world.ctx, t, world.pod("again").wholeCards(9))
	page.waitText("[data-what=pending] strong", "1 pod pending")
	if focused := eval[string](page, `document.activeElement.parentElement.dataset.what ?? ''`); focused != "cordoned" {
		t.Errorf("the focus has moved to %q", focused)
	}
}

func TestWebSortsItsLists(t *testing.T) {
	world := newWorld(t, 3)
	create(world.ctx, t, world.pod("a-small").share(10, 16_384))
	create(world.ctx, t, world.pod("b-large").wholeCards(8))
	small := waitBound(world.ctx, t, world.namespace, "a-small").Spec.NodeName
	large := waitBound(world.ctx, t, world.namespace, "b-large").Spec.NodeName
	create(world.ctx, t, world.pod("c-pending").wholeCards(9))
	create(world.ctx, t, world.pod("d-pending").wholeCards(12))
	page := world.extender.openPage(t, "/web/")
	page.waitLive()
	page.waitText("[data-what=pending] strong", "2 pods pending")
	first := func(tab, sort, want string) {
		t.Helper()
		page.click("#tab-" + tab)
		eval[bool](page, `(() => { const field = document.getElementById('sort'); field.value = %s;
			field.dispatchEvent(new Event('input', { bubbles: true })); return true; })()`, sort)
		page.wait(fmt.Sprintf("%s by %q to begin with %s", tab, sort, want),
			fmt.Sprintf(`document.querySelector('#list .row')?.dataset.key.startsWith(%q) && document.querySelector('#list .row').getAttribute('aria-posinset') === '1'`, want),
			`document.getElementById('list').innerText`)
	}
	first("nodes", "", world.nodes[0])
	first("nodes", "core", large)
	first("nodes", "free", slices.DeleteFunc(slices.Clone(world.nodes), func(node string) bool { return node == small || node == large })[0])
	first("pods", "", world.namespace+"/a-small")
	first("pods", "core", world.namespace+"/b-large")
	first("waiting", "", world.namespace+"/c-pending")
	first("waiting", "core", world.namespace+"/d-pending")
}

// What kube-scheduler 1.36 says, and what the page makes of it.
func TestWebReadsTheTwoListsOfKubeScheduler(t *testing.T) {
	page := plane.startExtender(t).openPage(t, "/web/")
	page.waitLive()
	for message, want := range map[string]string{
		"0/40 nodes are available: 32 Insufficient vke.volcengine.com/mgpu-core, 8 node(s) had no card. no new claims to deallocate, preemption: " +
			"0/40 nodes are available: 32 No preemption victims found for incoming pod, 8 Preemption is not helpful for scheduling.": "0/40 nodes are available | 32 Insufficient vke.volcengine.com/mgpu-core | 8 node(s) had no card || no new claims to deallocate || " +
			"0/40 nodes are available | 32 No preemption victims found for incoming pod | 8 Preemption is not helpful for scheduling",
		"0/3 nodes are available: 3 node(s) a b. preemption: not eligible due to preemptionPolicy=Never.": "0/3 nodes are available | 3 node(s) a b ||  || not eligible due to preemptionPolicy=Never",
		"0/3 nodes are available: 1 x, 2 y.": "0/3 nodes are available | 1 x | 2 y ||  || ",
		"something else":                     "something else ||  || ",
	} {
		seen := eval[string](page, `import('/web/model.js').then(({ reasonsOf }) => {
			const text = (list) => list ? [list.summary, ...list.reasons.map(({ count, text }) => count + ' ' + text)].join(' | ') : '';
			const read = reasonsOf(%s);
			return [text(read), read.more, text(read.evicting)].join(' || '); })`, message)
		if seen != want {
			t.Errorf("%q is read as\n%q, want\n%q", message, seen, want)
		}
	}
}

// ofManyNodes makes the page receive a cluster of this size instead of the extender's events.
func ofManyNodes(nodes int) chromedp.Action {
	script := fmt.Sprintf(`window.EventSource = class extends EventTarget {
		constructor() {
			super();
			const send = (name, data) => this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data) }));
			const models = [['A100', 8], ['V100', 8], ['H100', 8], ['A10', 4], ['T4', 2]];
			const nodes = Array.from({ length: %d }, (_, i) => {
				const [model, cards] = models[i %% 5];
				const list = Array.from({ length: cards }, (_, c) => [c, 'GPU-' + i + '-' + c, model, 1, 100, c %% 2 ? 60 : 0, 40, 0, 80000, 0, 80000, 0, '']);
				const pods = list.filter(([c]) => c %% 2).map(([c]) => ['ns-' + (i + c) %% 12, 'pod-' + i + '-' + c, 1, 0, '', [[c, 60, 0]]]);
				return ['gpu-worker-' + String(i).padStart(4, '0'), '', list, pods];
			});
			setTimeout(() => {
				send('hello', { epoch: 'e', started: 0, now: 0, version: '1', instance: 'i', domain: 'd', policy: 'p' });
				send('status', { ready: true, api_server: 'answers' });
				for (let i = 0; i < nodes.length; i += 100) send('nodes', { version: i + 1, nodes: nodes.slice(i, i + 100), removed: [] });
				send('synced', {});
				setInterval(() => send('beat', {}), 1000);
			});
		}
		close() {}
	};`, nodes)
	return chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdppage.AddScriptToEvaluateOnNewDocument(script).Do(ctx)
		return err
	})
}

func TestWebShowsFortyNodesOnOneScreenAndFiveThousandWithFewElements(t *testing.T) {
	extender := plane.startExtender(t)
	elements := map[int]int{}
	for _, nodes := range []int{40, 5000} {
		page := extender.openPage(t, "/web/", window(1440, 900, 1, false), ofManyNodes(nodes))
		page.waitLive()
		page.waitText("#count", fmt.Sprint(map[int]string{40: "40", 5000: "5,000"}[nodes], " nodes"))
		page.wait("the groups of models", `document.querySelectorAll('#overview canvas').length === 5`, `document.getElementById('overview').innerText`)
		page.waitText("#overview", fmt.Sprintf("T4 %s nodes", map[int]string{40: "8", 5000: "1,000"}[nodes]))
		if bottom := eval[float64](page, `document.getElementById('overview').getBoundingClientRect().bottom`); bottom > 900 {
			t.Errorf("%d nodes: the cards end at %.0f of 900 pixels", nodes, bottom)
		}
		if over := page.overflow(); over > 0 {
			t.Errorf("%d nodes: the page is %d pixels wider than its window", nodes, over)
		}
		// 12 namespaces: 8 have a color, and one entry has the others.
		page.wait("nine entries of the legend", `document.querySelectorAll('#legend li').length === 9`, `document.getElementById('legend').innerText`)
		page.waitText("#legend li:last-child", "4 others")
		// A click on a tile opens its node.
		eval[bool](page, `(() => { const box = document.querySelector('#overview canvas').getBoundingClientRect();
			document.querySelector('#overview canvas').dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: box.left + 3, clientY: box.top + 3 })); return true; })()`)
		page.waitText("#detail-title", "Node gpu-worker-0000")
		page.click("#detail-close")
		elements[nodes] = eval[int](page, `document.querySelectorAll('body *').length`)
	}
	if elements[5000] > 2*elements[40] || elements[5000] > 2000 {
		t.Errorf("the page has %d elements with 40 nodes, and %d with 5,000", elements[40], elements[5000])
	}
}
