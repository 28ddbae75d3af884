package systemd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"node-partition.io/node-partition/tests/testkit"
)

// bus is a test's own dbus-daemon, without a policy. The policy of the system bus is tested in
// tests/e2e/onnode.
type bus struct {
	t       *testing.T
	dir     string
	address string
	daemon  *exec.Cmd
}

const busConfig = `<busconfig>
  <type>system</type>
  <listen>%s</listen>
  <policy context="default"><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/><allow eavesdrop="false"/></policy>
</busconfig>`

func newBus(t *testing.T) *bus {
	t.Helper()
	testkit.NeedProgram(t, "dbus-daemon", "dbus-daemon")
	dir, err := os.MkdirTemp("", "bus") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	b := &bus{t: t, dir: dir, address: "unix:path=" + filepath.Join(dir, "bus")}
	if err := os.WriteFile(filepath.Join(dir, "conf"), fmt.Appendf(nil, busConfig, b.address), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	b.start()
	return b
}

// start returns when the daemon listens, which is when it prints its address.
func (b *bus) start() {
	b.t.Helper()
	b.daemon = exec.Command("dbus-daemon", "--config-file="+filepath.Join(b.dir, "conf"), "--nofork", "--nopidfile", "--print-address=1")
	b.daemon.Stderr = os.Stderr
	out, err := b.daemon.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.daemon.Start(); err != nil {
		b.t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.t.Fatalf("dbus-daemon does not start: %v", err)
	}
}

func (b *bus) stop() {
	if b.daemon == nil {
		return
	}
	_ = b.daemon.Process.Kill()
	_ = b.daemon.Wait()
	b.daemon = nil
	_ = os.Remove(filepath.Join(b.dir, "bus"))
}

func (b *bus) connect() *dbus.Conn {
	b.t.Helper()
	conn, err := dbus.Connect(b.address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// fake answers as systemd's manager does.
type fake struct {
	conn *dbus.Conn

	mu     sync.Mutex
	job    int
	calls  []string        // the calls, in order
	exists map[string]bool // the existing units
	props  map[string]map[string]dbus.Variant
	quiet  bool              // it does not report the end of a job
	onCall func(call string) // called with each call
}

// newFake returns a fake that owns systemd's name on the bus. The units exist from the start.
func newFake(b *bus, units ...string) *fake {
	b.t.Helper()
	f := &fake{conn: b.connect(), exists: map[string]bool{}, props: map[string]map[string]dbus.Variant{}}
	for _, u := range units {
		f.exists[u] = true
	}
	if err := f.conn.Export(f, objectPath, manager); err != nil {
		b.t.Fatal(err)
	}
	if _, err := f.conn.RequestName(busName, dbus.NameFlagDoNotQueue); err != nil {
		b.t.Fatal(err)
	}
	return f
}

// on makes the fake call a function with each call.
func (f *fake) on(call func(string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onCall = call
}

func (f *fake) called(format string, arguments ...any) {
	call := fmt.Sprintf(format, arguments...)
	f.mu.Lock()
	f.calls = append(f.calls, call)
	onCall := f.onCall
	f.mu.Unlock()
	if onCall != nil {
		onCall(call)
	}
}

// neverDone makes the fake never report the end of a job. The returned channel is closed when the
// first job is queued.
func (f *fake) neverDone() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quiet = true
	queued := make(chan struct{})
	once := sync.Once{}
	f.onCall = func(call string) {
		if strings.HasPrefix(call, "St") {
			once.Do(func() { close(queued) })
		}
	}
	return queued
}

// property returns the latest value of a property of the slice.
func (f *fake) property(name string) dbus.Variant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.props[slice][name]
}

// seen returns the calls since it was last called.
func (f *fake) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

type property struct {
	Name  string
	Value dbus.Variant
}

type auxiliary struct {
	Name       string
	Properties []property
}

func (f *fake) Subscribe() *dbus.Error {
	f.called("Subscribe")
	return nil
}

func (f *fake) StartTransientUnit(name, mode string, properties []property, _ []auxiliary) (dbus.ObjectPath, *dbus.Error) {
	f.called("StartTransientUnit %s %s", name, mode)
	f.mu.Lock()
	exists := f.exists[name]
	f.exists[name] = true
	f.mu.Unlock()
	if exists {
		return "", dbus.NewError("org.freedesktop.systemd1.UnitExists", []any{"Unit " + name + " was already loaded or has a fragment file."})
	}
	f.keep(name, properties)
	return f.newJob(name), nil
}

func (f *fake) keep(name string, properties []property) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.props[name] == nil {
		f.props[name] = map[string]dbus.Variant{}
	}
	for _, p := range properties {
		f.props[name][p.Name] = p.Value
	}
}

func (f *fake) SetUnitProperties(name string, runtime bool, properties []property) *dbus.Error {
	f.called("SetUnitProperties %s %t", name, runtime)
	f.keep(name, properties)
	return nil
}

func (f *fake) StartUnit(name, mode string) (dbus.ObjectPath, *dbus.Error) {
	f.called("StartUnit %s %s", name, mode)
	return f.newJob(name), nil
}

func (f *fake) StopUnit(name, mode string) (dbus.ObjectPath, *dbus.Error) {
	f.called("StopUnit %s %s", name, mode)
	f.mu.Lock()
	exists := f.exists[name]
	delete(f.exists, name)
	f.mu.Unlock()
	if !exists {
		return "", dbus.NewError("org.freedesktop.systemd1.NoSuchUnit", []any{"Unit " + name + " not loaded."})
	}
	return f.newJob(name), nil
}

func (f *fake) KillUnit(name, who string, signal int32) *dbus.Error {
	f.called("KillUnit %s %s %d", name, who, signal)
	return nil
}

func (f *fake) RevertUnitFiles(names []string) ([][]any, *dbus.Error) {
	f.called("RevertUnitFiles %s", strings.Join(names, " "))
	return nil, nil
}

func (f *fake) Reload() *dbus.Error {
	f.called("Reload")
	return nil
}

// newJob makes a job that is over at once. Its end is reported before its number is answered, as
// systemd may do too.
func (f *fake) newJob(unit string) dbus.ObjectPath {
	f.mu.Lock()
	f.job++
	id, quiet := f.job, f.quiet
	f.mu.Unlock()
	path := dbus.ObjectPath(fmt.Sprintf("%s/job/%d", objectPath, id))
	if !quiet {
		f.emit("JobRemoved", uint32(id), path, unit, "done")
	}
	return path
}

func (f *fake) emit(member string, body ...any) {
	_ = f.conn.Emit(objectPath, manager+"."+member, body...)
}

// told collects the notifications of a client, of which a test has fewer than it holds.
type told chan string

func (c told) options(b *bus) Options {
	return Options{
		BusAddress:     b.address,
		PrivateAddress: "unix:path=" + filepath.Join(b.dir, "none"),
		ControlDir:     filepath.Join(b.dir, "control"),
		Wake:           func() { c <- "wake" },
		OnReloaded:     func() { c <- "reloaded" },
		OnConnected:    func(up bool) { c <- fmt.Sprint("connected ", up) },
	}
}

const late = 20 * time.Second

// want compares the next notifications with what.
func (c told) want(t *testing.T, what ...string) {
	t.Helper()
	for _, w := range what {
		select {
		case got := <-c:
			if got != w {
				t.Fatalf("told %q, want %q", got, w)
			}
		case <-time.After(late):
			t.Fatalf("not told %q within %s", w, late)
		}
	}
}

// run starts a client that runs until the test ends.
func run(t *testing.T, o Options) *Client {
	t.Helper()
	c := New(o)
	testkit.Background(t, c.Run)
	return c
}

// proxy forwards connections to a bus until they are dropped.
type proxy struct {
	mu   sync.Mutex
	open []net.Conn
}

func (p *proxy) serve(listener net.Listener, bus string) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("unix", bus)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.open = append(p.open, in, out)
		p.mu.Unlock()
		forward := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}
		go forward(out, in)
		go forward(in, out)
	}
}

func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}

// TestReconnectPauses: a broker that accepts a connection and drops it at once, as one whose quota
// is exceeded, is not asked again and again without a pause.
func TestReconnectPauses(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	newFake(b)
	path := filepath.Join(b.dir, "proxy")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var through proxy
	go through.serve(listener, filepath.Join(b.dir, "bus"))
	var ups, reloads atomic.Int32
	c := New(Options{
		BusAddress: "unix:path=" + path, PrivateAddress: "unix:path=" + path + ".none",
		OnConnected: func(up bool) {
			if up {
				ups.Add(1)
				through.drop()
			}
		},
		OnReloaded: func() { reloads.Add(1) }, Wake: func() {},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_ = c.Run(ctx) // it ends with its context
	if n := ups.Load(); n < 2 || n > 12 || reloads.Load() > n {
		t.Errorf("connected %d times in two seconds, and the configuration was read %d times", n, reloads.Load())
	}
}
