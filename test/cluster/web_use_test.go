package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWebShowsPendingPodsWithTheirReasonsAndWhatWouldHelp(t *testing.T) {
	world := newWorld(t, 2)
	create(world.ctx, t, world.pod("too-large").share(50, 40_000))
	create(world.ctx, t, world.pod("without-cards").cpu0())
	waitPending(world.ctx, t, world.namespace, "too-large", "node(s) had no card that large, even empty")
	page := world.extender.openPage(t, "/web/")
	page.waitLive()
	// It stands beside the cards and in the list, with what the extender would say in its Event.
	page.waitText(`[data-what=pending] strong`, "1 pod pending")
	page.waitText("#pending-list .reason", "the largest card has mgpu-core 100 and mgpu-memory 32510")
	page.waitText("#pending-list .help", "It fits on gpu-00 with mgpu-memory 32510 instead of 40000 for container c0")
	page.click("#tab-waiting")
	key := world.namespace + "/too-large"
	page.waitRow(key, true)
	page.waitText(".row .reason", "the largest card has mgpu-core 100 and mgpu-memory 32510")
	page.waitText(".row .help", "It fits on gpu-00 with mgpu-memory 32510 instead of 40000 for container c0")

	page.click(fmt.Sprintf(`.row[data-key=%q]`, key))
	page.waitText("#detail-title", "Pod "+key)
	page.waitText("#detail-body", "2 node(s) had no card that large, even empty")
	page.waitText("#detail-body", "0 nodes would take it now")
	page.waitText("#detail-body .help", "It fits on gpu-00 with mgpu-memory 32510")
	page.waitText("#detail-body .commands", "kubectl mgpu explain too-large -n "+world.namespace)
	// kube-scheduler counts each node twice: why the pod does not fit, and why evicting does not help.
	lists := eval[[]string](page, `[...document.querySelectorAll('#detail-body .steps > li:nth-child(3) .reasons')].map((list) => list.textContent)`)
	if len(lists) != 2 || lists[0] != "2 node(s) had no card that large, even empty" || strings.Contains(lists[1], "large") {
		t.Errorf("the lists of kube-scheduler are %q", lists)
	}
	page.click("#detail-close")

	// It goes on while the page is open.
	create(world.ctx, t, world.pod("second").wholeCards(9))
	page.waitRow(world.namespace+"/second", true)
	deleteNow(world.ctx, t, world.namespace, "too-large")
	page.waitRow(key, false)
}

// cpu0 adds a container that requests neither cards nor anything else.
func (b *PodBuilder) cpu0() *PodBuilder { return b.container("c0", "", "") }

func TestWebShowsAPodFromRequestToCard(t *testing.T) {
	world := newWorld(t, 1)
	create(world.ctx, t, world.pod("some").share(30, 8192).container("b", "200", ""))
	bound := waitBound(world.ctx, t, world.namespace, "some")
	page := world.extender.openPage(t, "/web/#/pod/"+world.namespace+"/some")
	page.waitLive()
	page.waitText("#detail-title", "Pod "+world.namespace+"/some")
	page.waitText("#detail-body", "c0 (app): 1 card, 30 % and 8 GiB of each")
	page.waitText("#detail-body", "b (app): 2 cards, whole")
	for container, name := range map[string]string{"c0": "c0", "b": "b"} {
		cards := strings.ReplaceAll(bound.Annotations[indexKeyPrefix+container], ",", ", ")
		what := map[bool]string{false: "card ", true: "cards "}[strings.Contains(cards, ",")]
		page.waitText("#detail-body", name+" (app): "+what+cards)
	}
	page.waitText("#detail-body", "GPU-gpu-00-"+bound.Annotations[indexKeyPrefix+"c0"])
	page.waitText("#detail-body", "The extender reads no Prometheus (--prometheus-url).")
	page.waitText("#detail-body", "kubectl mgpu top -n "+world.namespace)
	page.click(`#detail-body a[href="#/node/gpu-00"]`)
	page.waitText("#detail-title", "Node gpu-00")
	page.run(chromedp.NavigateBack())
	page.waitText("#detail-title", "Pod "+world.namespace+"/some")
}

func TestWebSearchesAndFilters(t *testing.T) {
	world := newWorld(t, 2)
	plane.createNodeOf(world.ctx, t, "other", NodeShape{2, "A100-80GB", 81_559, 96_000, 512 << 10})
	create(world.ctx, t, world.pod("trainer").wholeCards(8))
	bound := waitBound(world.ctx, t, world.namespace, "trainer")
	page := world.extender.openPage(t, "/web/")
	page.waitLive()
	page.waitText("#count", "3 nodes")
	enter := func(id, value string) {
		eval[bool](page, `(() => { const field = document.getElementById(%s); field.value = %s;
			field.dispatchEvent(new Event('input', { bubbles: true })); return true; })()`, id, value)
	}
	for _, test := range []struct{ query, model, show, count, row string }{
		{"trainer", "", "", "1 of 3 nodes", bound.Spec.NodeName},
		{"gpu-other-1", "", "", "1 of 3 nodes", "other"}, // a UUID
		{"", "A100-80GB", "", "1 of 3 nodes", "other"},
		{"", "", "full", "1 of 3 nodes", bound.Spec.NodeName},
		{"", "", "empty", "2 of 3 nodes", "other"},
		{"no such thing", "", "", "0 of 3 nodes", ""},
		{"", "", "", "3 nodes", "other"},
	} {
		enter("query", test.query)
		enter("model", test.model)
		enter("show", test.show)
		page.waitText("#count", test.count)
		if test.row != "" {
			page.waitRow(test.row, true)
		}
	}
	page.click("#tab-pods")
	page.waitRow(world.namespace+"/trainer "+bound.Spec.NodeName, true)
}

func TestWebIsUsedByKeyboard(t *testing.T) {
	world := newWorld(t, 3)
	page := world.extender.openPage(t, "/web/")
	page.waitLive()
	page.waitRow(world.nodes[2], true)
	page.press("/")
	if focused := page.focused(); focused != "query" {
		t.Fatalf("/ moves the focus to %q, want the search", focused)
	}
	// The driver sends the character besides the key.
	eval[bool](page, `(document.getElementById('query').value = '', true)`)
	page.press("gpu-01")
	page.waitText("#count", "1 of 3 nodes")
	page.press(kb.Escape)
	page.wait("Escape to end the search", `document.getElementById('count').innerText === '3 nodes'`,
		`document.getElementById('query').value`)
	for range 8 { // the next controls, and then the list
		if page.focused() == "list" {
			break
		}
		page.press(kb.Tab)
	}
	if focused := page.focused(); focused != "list" {
		t.Fatalf("Tab does not reach the list, but %q", focused)
	}
	page.press(kb.ArrowDown + kb.End + kb.ArrowUp)
	active := eval[string](page, `(document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))?.dataset.key ??
		document.activeElement.outerHTML.slice(0, 300))`)
	if active != world.nodes[1] {
		t.Errorf("the active row is %q, want %q", active, world.nodes[1])
	}
	page.press(kb.Enter)
	page.waitText("#detail-title", "Node "+world.nodes[1])
	page.press(kb.Escape)
	page.wait("the dialog to close", `!document.getElementById('detail').open`, `location.hash`)
	page.wait("the focus to return to the list", `document.activeElement.id === 'list'`, `document.activeElement.outerHTML`)

	eval[bool](page, `(document.getElementById('tab-nodes').focus(), true)`)
	page.press(kb.ArrowRight)
	if focused := page.focused(); focused != "tab-pods" {
		t.Errorf("the right arrow moves from the first tab to %q", focused)
	}
	page.waitText("#count", "No pods")
}

// What a screen reader gets: each control has a name, and a row says what it shows.
func TestWebIsReadAloud(t *testing.T) {
	world := newWorld(t, 1)
	create(world.ctx, t, world.pod("some").share(50, 8192))
	waitBound(world.ctx, t, world.namespace, "some")
	page := world.extender.openPage(t, "/web/")
	page.waitLive()
	page.waitText(`[data-total=pods] strong`, "1")
	var tree []*accessibility.Node
	page.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		tree, err = accessibility.GetFullAXTree().Do(ctx)
		return err
	}))
	names := map[string][]string{}
	for _, node := range tree {
		if node.Ignored || node.Role == nil {
			continue
		}
		role, name := axText(node.Role), ""
		if node.Name != nil {
			name = axText(node.Name)
		}
		names[role] = append(names[role], name)
	}
	for _, role := range []string{"button", "tab", "searchbox", "combobox", "listbox", "option", "heading", "image"} {
		if len(names[role]) == 0 {
			t.Errorf("there is no %s; roles are %v", role, names)
		}
		for _, name := range names[role] {
			if name == "" {
				t.Errorf("a %s has no name", role)
			}
		}
	}
	row := "gpu-00, 8 cards V100, 6.3 % compute, 3.1 % memory, 1 pod, 7 free cards"
	if !strings.Contains(strings.Join(names["option"], "\n"), row) {
		t.Errorf("no row is read as %q: %q", row, names["option"])
	}
}

// contrastOf computes WCAG's contrast of the text of elements with their background.
const contrastOf = `(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d');
  const channels = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const [r, g, b] = channels(color).slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (channels(color)[3] > 0) return color;
    }
    return 'white';
  };
  let least = [99, ''];
  for (const element of document.querySelectorAll('h1, h2, h3, h3 small, dt, dd, p, strong, small, .caption, #count, button, .name, .facts, .trouble, .reason, .help, summary, label')) {
    if (!element.innerText.trim()) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(back(element))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < least[0]) least = [contrast, element.tagName + '.' + element.className + ' ' + element.innerText.slice(0, 40)];
  }
  return least.map(String);
})()`

func TestWebFitsAPhoneAndBothColorSchemes(t *testing.T) {
	world := newWorld(t, 2)
	create(world.ctx, t, world.pod("some").share(50, 8192))
	bound := waitBound(world.ctx, t, world.namespace, "some")
	world.breakCard(t, world.nodes[1])
	dark := regexp.MustCompile(`^rgb\((\d{1,2}), (\d{1,2}), (\d{1,2})\)$`)
	for _, scheme := range []string{"light", "dark"} {
		page := world.extender.openPage(t, "/web/", window(375, 812, 2, true), colorScheme(scheme))
		page.waitLive()
		page.waitText(".trouble", "card 0 unhealthy: XID 79")
		page.waitText("[data-what=unhealthy] strong", "1 card unhealthy: XID 79")
		if over := page.overflow(); over > 0 {
			t.Errorf("%s: the page is %d pixels wider than a phone", scheme, over)
		}
		background := eval[string](page, `getComputedStyle(document.body).backgroundColor`)
		if dark.MatchString(background) != (scheme == "dark") {
			t.Errorf("%s: the background is %s", scheme, background)
		}
		least := eval[[]string](page, contrastOf)
		var contrast float64
		if _, err := fmt.Sscan(least[0], &contrast); err != nil || contrast < 4.5 {
			t.Errorf("%s: contrast %s of %q, want 4.5", scheme, least[0], least[1])
		}
		page.click(fmt.Sprintf(`.row[data-key=%q]`, bound.Spec.NodeName))
		page.waitText("#detail-title", bound.Spec.NodeName)
		width := eval[int](page, `Math.round(document.getElementById('detail').getBoundingClientRect().width)`)
		if width > 375 {
			t.Errorf("%s: the dialog is %d pixels wide", scheme, width)
		}
	}
}

// breakCard marks the first card of a node as unhealthy for four minutes.
func (w *World) breakCard(t testing.TB, name string) {
	t.Helper()
	nodes := plane.admin.CoreV1().Nodes()
	node, err := nodes.Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	since := time.Now().Add(-4 * time.Hour).UTC().Format(time.RFC3339)
	for before, after := range map[string]string{`"Healthy"`: `"XID 79"`, `"since":"2026-01-01T00:00:00Z"`: fmt.Sprintf(`"since":%q`, since)} {
		node.Annotations[cardsKey] = strings.Replace(node.Annotations[cardsKey], before, after, 1)
	}
	if _, err := nodes.Update(w.ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func axText(value *accessibility.Value) string {
	var text string
	_ = json.Unmarshal(value.Value, &text)
	return text
}

// TestWebPictures makes the pictures of the page, but that of a pod, which TestWebShowsWhatAPodUses makes.
func TestWebPictures(t *testing.T) {
	// By name, equal nodes are chosen in the same way each time, so that the last pods find whole cards.
	world := newWorld(t, 0, "--ties", "name")
	models := []NodeShape{v100Node(8), {8, "A100-80GB", 81_559, 96_000, 512 << 10}, {4, "A10", 23_028, 96_000, 512 << 10}}
	for i := range 15 {
		plane.createNodeOf(world.ctx, t, fmt.Sprintf("node-%02d", i), models[i%3])
	}
	world.extender.waitNodes(t, 15)
	wanted := []struct {
		namespace, name string
		cores           []int
		memory          int
	}{
		{"research", "notebook", []int{30, 20, 50, 10, 40, 25, 30, 60, 15, 20, 30, 40, 20, 35}, 4096},
		{"serving", "chat", []int{50, 50, 50, 70, 70, 40, 45, 80, 30, 60, 90, 25}, 16_384},
		{"training", "finetune", []int{100, 200, 400, 800, 100, 800, 400, 200, 800, 100, 400, 300}, 0},
	}
	for _, of := range wanted {
		if err := plane.createNamespace(world.ctx, of.namespace); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { removePods(of.namespace) })
		for i, core := range of.cores {
			memory := ""
			if of.memory > 0 {
				memory = fmt.Sprint(of.memory)
			}
			name := fmt.Sprintf("%s-%d", of.name, i)
			create(world.ctx, t, newPod(of.namespace, name).container("main", fmt.Sprint(core), memory))
			waitBound(world.ctx, t, of.namespace, name)
		}
	}
	world.breakCard(t, "node-05")
	world.annotate(t, "node-09", domain+"/mgpu-cordoned-cards", "7")
	create(world.ctx, t, newPod("training", "pretrain-0").wholeCards(9))
	create(world.ctx, t, newPod("serving", "embed-0").annotation(domain+"/gpu-model", "H100").share(20, 8192))
	waitPending(world.ctx, t, "serving", "embed-0", "node(s) had no card of the requested model")
	for _, picture := range []struct {
		name   string
		path   string
		width  int64
		height int64
		scheme string
		tab    string
	}{
		{"page.png", "/web/", 1200, 800, "light", "nodes"},
		{"page-phone.png", "/web/", 390, 780, "dark", "waiting"},
	} {
		page := world.extender.openPage(t, picture.path, window(picture.width, picture.height, 1, false),
			colorScheme(picture.scheme))
		page.waitLive()
		page.waitText(`[data-what=unhealthy] strong`, "1 card unhealthy: XID 79")
		page.waitText(`[data-what=pending] strong`, "2 pods pending")
		page.waitText("#pending-list .help", "their models are A10, A100-80GB and V100")
		page.click("#tab-" + picture.tab)
		if picture.tab == "waiting" {
			page.waitRow("serving/embed-0", true)
			eval[bool](page, `(document.getElementById('tabs').scrollIntoView(), true)`)
		}
		page.screenshot(picture.name)
	}
}
