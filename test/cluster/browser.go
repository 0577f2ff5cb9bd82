package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browserWait is how long a page may take to show something. It is generous, because programs with
// sanitizers share the processors with the browser.
const browserWait = 3 * time.Minute

// Browser is a headless Chromium, which all tests share.
type Browser struct {
	process   *Process
	allocator context.Context
}

var startBrowser = sync.OnceValues(func() (*Browser, error) {
	binary := os.Getenv("MGPU_CHROMIUM_BINARY")
	if binary == "" {
		return nil, fmt.Errorf("MGPU_CHROMIUM_BINARY is not set; test/run.sh web sets it")
	}
	profile := filepath.Join(plane.folder, "chromium")
	// Processes of other users must not reach the port, but tests run as root or alone on a machine.
	process, err := startProcess("chromium", filepath.Join(plane.folder, "chromium.log"), binary,
		"--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
		"--disable-background-timer-throttling", "--disable-default-apps", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--remote-debugging-port=0", "--user-data-dir="+profile, "about:blank")
	if err != nil {
		return nil, err
	}
	// Its first line is the port, its second one the path.
	var endpoint []string
	err = poll(browserWait, "Chromium to listen", func() (bool, string) {
		text, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		endpoint = strings.Split(strings.TrimSpace(string(text)), "\n")
		return err == nil && len(endpoint) == 2, process.logTail(5)
	})
	if err != nil {
		process.Kill()
		return nil, err
	}
	allocator, _ := chromedp.NewRemoteAllocator(context.Background(),
		fmt.Sprintf("ws://127.0.0.1:%s%s", endpoint[0], endpoint[1]), chromedp.NoModifyURL)
	return &Browser{process: process, allocator: allocator}, nil
})

// Page is a tab. What its browser complains about fails the test at its end.
type Page struct {
	t      testing.TB
	ctx    context.Context
	origin string

	mutex      sync.Mutex
	elsewhere  []string // requests to other origins
	complaints []string // exceptions, violations of the policy, errors on the console
	violates   bool     // the test violates the policy itself: this is no complaint
	failures   []string // requests without a response, and statuses of errors
}

// openPage opens a tab on a path of the extender's listener.
func (e *Extender) openPage(t testing.TB, path string, actions ...chromedp.Action) *Page {
	t.Helper()
	browser, err := startBrowser()
	if err != nil {
		t.Fatal(err)
	}
	// chromedp reports events that are newer than it.
	ctx, cancel := chromedp.NewContext(browser.allocator, chromedp.WithErrorf(func(string, ...any) {}))
	page := &Page{t: t, ctx: ctx, origin: fmt.Sprintf("http://127.0.0.1:%d", e.metricsPort)}
	chromedp.ListenTarget(ctx, page.listen)
	watch := chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdppage.AddScriptToEvaluateOnNewDocument(
			`addEventListener('securitypolicyviolation', (event) =>
			   console.error('policy violation: ' + event.violatedDirective + ' ' + event.blockedURI));`).Do(ctx)
		return err
	})
	t.Cleanup(func() {
		page.check()
		cancel()
	})
	page.run(append(append([]chromedp.Action{runtime.Enable(), network.Enable(), cdplog.Enable(), watch,
		// A tab in the background draws nothing, and one that closes may leave another one in front.
		emulation.SetFocusEmulationEnabled(true), cdppage.BringToFront()}, actions...),
		chromedp.Navigate(page.origin+path))...)
	return page
}

func (p *Page) listen(event any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		if address, err := url.Parse(event.Request.URL); err != nil || address.Scheme+"://"+address.Host != p.origin {
			p.elsewhere = append(p.elsewhere, event.Request.URL)
		}
	case *network.EventLoadingFailed:
		p.failures = append(p.failures, fmt.Sprint(event.Type, " ", event.ErrorText))
	case *network.EventResponseReceived:
		if event.Response.Status >= 400 {
			p.failures = append(p.failures, fmt.Sprint(event.Response.URL, " ", event.Response.Status))
		}
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, event.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if event.Type == runtime.APITypeError || event.Type == runtime.APITypeWarning {
			p.complain("console: ", string(event.Args[0].Value), strings.Contains(string(event.Args[0].Value), "policy violation: "))
		}
	case *cdplog.EventEntryAdded:
		if event.Entry.Level == cdplog.LevelError && event.Entry.Source != cdplog.SourceNetwork {
			p.complain(event.Entry.Source.String()+": ", event.Entry.Text, event.Entry.Source == cdplog.SourceSecurity)
		}
	}
}

// complain records what the browser said; the browser reports a violation some time after the script that
// tried it has continued. The caller holds the mutex.
func (p *Page) complain(source, text string, violation bool) {
	if !violation || !p.violates {
		p.complaints = append(p.complaints, source+text)
	}
}

func (p *Page) failed() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.failures)
}

func (p *Page) check() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.elsewhere) > 0 {
		p.t.Errorf("the page sent requests elsewhere: %q", p.elsewhere)
	}
	if len(p.complaints) > 0 {
		p.t.Errorf("the browser complains: %q", p.complaints)
	}
}

func (p *Page) run(actions ...chromedp.Action) {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- chromedp.Run(p.ctx, actions...) }()
	select {
	case err := <-done:
		if err != nil {
			p.t.Fatal(err)
		}
	case <-time.After(browserWait):
		p.t.Fatalf("the browser did not do %T within %v", actions[len(actions)-1], browserWait)
	}
}

// eval returns the value of an expression, which may be a promise, as JSON reads it.
func eval[T any](p *Page, expression string, arguments ...any) T {
	p.t.Helper()
	quoted := make([]any, len(arguments))
	for i, argument := range arguments {
		text, err := json.Marshal(argument)
		if err != nil {
			p.t.Fatal(err)
		}
		quoted[i] = string(text)
	}
	var value T
	p.run(chromedp.Evaluate(fmt.Sprintf(expression, quoted...), &value,
		func(parameters *runtime.EvaluateParams) *runtime.EvaluateParams {
			return parameters.WithAwaitPromise(true).WithAllowUnsafeEvalBlockedByCSP(false)
		}))
	return value
}

// wait waits until the expression is true. `seen` is an expression whose value is shown otherwise.
func (p *Page) wait(what, expression, seen string) {
	p.t.Helper()
	waitFor(p.t, browserWait, what, func() (bool, string) {
		if eval[bool](p, "Boolean("+expression+")") {
			return true, ""
		}
		p.run(cdppage.BringToFront())
		return false, fmt.Sprintf("%s; failed requests: %q", eval[string](p, "String("+seen+")"), p.failed())
	})
}

func (p *Page) waitLive() {
	p.t.Helper()
	p.wait("the page to be live", `document.documentElement.dataset.state === 'live'`,
		`document.body.innerText.slice(0, 400)`)
}

// text returns the text of the first element that matches.
func (p *Page) text(selector string) string {
	p.t.Helper()
	return eval[string](p, `(document.querySelector(%s)?.innerText ?? 'no such element')`, selector)
}

// waitText waits until the element contains the text.
func (p *Page) waitText(selector, text string) {
	p.t.Helper()
	waitFor(p.t, browserWait, fmt.Sprintf("%s to contain %q", selector, text), func() (bool, string) {
		seen := p.text(selector)
		return strings.Contains(seen, text), seen
	})
}

func (p *Page) click(selector string) {
	p.t.Helper()
	if !eval[bool](p, `(() => { const found = document.querySelector(%s); found?.click(); return !!found; })()`, selector) {
		p.t.Fatalf("the page has no %s", selector)
	}
}

// press sends keys, as chromedp/kb names them.
func (p *Page) press(keys string) {
	p.t.Helper()
	p.run(chromedp.KeyEvent(keys))
}

// focused returns the id of the element that has the focus.
func (p *Page) focused() string { return eval[string](p, `document.activeElement.id`) }

// keys returns the keys of the rows in the document, in their order.
func (p *Page) keys() []string {
	return eval[[]string](p, `[...document.querySelectorAll('#list .row')].map((row) => row.dataset.key)`)
}

func (p *Page) waitRow(key string, there bool) {
	p.t.Helper()
	waitFor(p.t, browserWait, fmt.Sprintf("row %q to be there: %v", key, there), func() (bool, string) {
		keys := p.keys()
		return slices.Contains(keys, key) == there, fmt.Sprint(keys)
	})
}

// overflow returns by how many pixels the page is wider than its window.
func (p *Page) overflow() int {
	return eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`)
}

// screenshot writes a picture of what the window shows, where MGPU_SCREENSHOTS names a folder.
func (p *Page) screenshot(name string) {
	p.t.Helper()
	var picture []byte
	p.run(chromedp.CaptureScreenshot(&picture))
	if len(picture) == 0 {
		p.t.Errorf("the picture %s is empty", name)
	}
	if folder := os.Getenv("MGPU_SCREENSHOTS"); folder != "" {
		if err := os.WriteFile(filepath.Join(folder, name), picture, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

func window(width, height int64, scale float64, mobile bool) chromedp.Action {
	return emulation.SetDeviceMetricsOverride(width, height, scale, mobile)
}

func colorScheme(name string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures(
		[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}})
}
