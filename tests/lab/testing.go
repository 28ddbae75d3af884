package lab

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// collectTimeout bounds Collect after a failed test: the node may not answer at all.
const collectTimeout = 2 * time.Minute

// ForTest starts a node and stops it when the test ends. Stop ends it earlier and makes room for
// another node. If the test has failed, ForTest collects what explains it, into $LAB_ARTIFACTS or
// into a folder of the cache. The test's log names the folder. If the lab cannot run, the test
// fails: skipping would hide it.
func ForTest(tb testing.TB, o Options) *Node {
	tb.Helper()
	return forTest(tb, o, Start)
}

// JoinedForTest restores a node and starts a control plane, which the node joins. ForTest and
// ControlPlaneForTest own them. While the test waits for a place for its machine, no API server
// runs for it.
func JoinedForTest(tb testing.TB, o Options) (*Node, *ControlPlane) {
	tb.Helper()
	var p *ControlPlane
	o.Restore = true
	n := forTest(tb, o, func(ctx context.Context, o Options) (*Node, error) {
		p = ControlPlaneForTest(tb)
		o.ControlPlane = p
		return Start(ctx, o)
	})
	return n, p
}

// forTest waits for a place, and starts a node that is stopped when the test ends.
func forTest(tb testing.TB, o Options, start func(context.Context, Options) (*Node, error)) *Node {
	tb.Helper()
	if o.Progress == nil {
		o.Progress = func(line string) { tb.Log("lab: " + line) }
	}
	c, err := defaultCache()
	if err != nil {
		tb.Fatalf("lab: %v", err)
	}
	wanted := time.Now()
	release, err := c.takePlace(tb.Context(), tb.Name())
	if err != nil {
		tb.Fatalf("lab: %v", err)
	}
	tb.Logf("lab: place after %.1f s", time.Since(wanted).Seconds())
	return c.nodeForTest(tb, o, start, release)
}

// nodeForTest starts a node that is stopped when the test ends. It calls release when the node has
// ended.
func (c cache) nodeForTest(
	tb testing.TB, o Options, start func(context.Context, Options) (*Node, error), release func(),
) *Node {
	tb.Helper()
	held := true
	defer func() {
		if held { // nothing was started
			release()
		}
	}()
	began := time.Now()
	n, err := start(tb.Context(), o)
	if err != nil {
		tb.Fatalf("lab: %v", err)
	}
	held = false
	up := time.Now()
	n.release = sync.OnceFunc(release)
	n.finish = sync.OnceFunc(func() {
		defer n.release()
		if err := c.noteDuration(tb.Name(), time.Since(began)); err != nil {
			tb.Logf("lab: %v", err)
		}
		tb.Logf("lab: %s: up after %.1f s, used for %.1f s, %.1f s of CPU time, %d commands", n.Name,
			up.Sub(began).Seconds(), time.Since(up).Seconds(), n.cpuTime().Seconds(),
			n.conn.commands())
		// The test's own context has ended by now.
		ctx := context.Background()
		if tb.Failed() {
			collectCtx, cancel := context.WithTimeout(ctx, collectTimeout)
			defer cancel()
			dir := n.cache.artifactsDir(tb.Name(), n.Name)
			if err := n.Collect(collectCtx, dir); err != nil {
				tb.Logf("lab: %v", err)
			}
			tb.Logf("lab: what node %s was like is in %s", n.Name, dir)
		}
		if err := n.Stop(ctx); err != nil {
			tb.Errorf("lab: %v", err)
		}
	})
	tb.Cleanup(n.finish)
	return n
}

// ControlPlaneForTest starts a control plane that is stopped when the test ends, after the nodes
// that join it. If the test has failed, its logs are kept beside a node's of ForTest.
func ControlPlaneForTest(tb testing.TB) *ControlPlane {
	tb.Helper()
	p, err := StartControlPlane(tb.Context(), func(line string) { tb.Log("lab: " + line) })
	return controlPlaneForTest(tb, p, err)
}

// APIServerForTest is ControlPlaneForTest with an API server of an older minor version, such as
// "1.35", with arguments that are added, and without programs for StartControllers. APIServers
// lists the versions.
func APIServerForTest(tb testing.TB, minor string, args ...string) *ControlPlane {
	tb.Helper()
	p, err := startAPIServer(tb.Context(), minor, args, func(line string) { tb.Log("lab: " + line) })
	return controlPlaneForTest(tb, p, err)
}

func controlPlaneForTest(tb testing.TB, p *ControlPlane, err error) *ControlPlane {
	tb.Helper()
	if err != nil {
		tb.Fatalf("lab: %v", err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			dir := p.cache.artifactsDir(tb.Name(), "control-plane")
			if err := p.keepLogs(dir); err != nil {
				tb.Logf("lab: keep the control plane's logs: %v", err)
			}
			tb.Logf("lab: the control plane's logs are in %s", dir)
		}
		if err := p.Stop(); err != nil {
			tb.Errorf("lab: %v", err)
		}
	})
	return p
}

var notInFileName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Artifacts makes a folder for what a test leaves for people, in $LAB_ARTIFACTS or in the cache,
// and returns its path.
func Artifacts(tb testing.TB) (string, error) {
	tb.Helper()
	c, err := defaultCache()
	if err != nil {
		return "", err
	}
	dir := c.artifactsDir(tb.Name(), time.Now().UTC().Format("20060102-150405"))
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// artifactsDir returns the folder for what explains a failure.
func (c cache) artifactsDir(what, node string) string {
	base := os.Getenv("LAB_ARTIFACTS")
	if base == "" {
		base = filepath.Join(c.Dir, "artifacts")
	}
	return filepath.Join(base, notInFileName.ReplaceAllString(what, "_")+"-"+node)
}
