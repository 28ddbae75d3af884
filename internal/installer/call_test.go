package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/systemd"
)

// fake is the host: it answers as its systemd and the installer there do.
type fake struct {
	t *testing.T
	c *Call
	// host is the same folder for the installer on the host.
	host Store
	// units lists the services that were started.
	units []string
	// serve is the service; nil for one that ends well.
	serve func(unit string) (systemd.Ended, error)
	noBus bool
	// said has the progress.
	said string
}

func newFake(t *testing.T) *fake {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	disk := Disk{Sync: func(*os.File) error { return nil }}
	f := &fake{t: t, host: Store{Disk: disk, Folder: filepath.Join(dir, "state")}}
	f.host.Root = host.Root("/")
	f.c = &Call{Store: Store{Disk: disk, Folder: f.host.Folder}, ID: "x1", Program: program, Systemd: f}
	f.c.Say = func(format string, args ...any) { f.said += fmt.Sprintf(format+"\n", args...) }
	return f
}

// Version implements Manager.
func (f *fake) Version(context.Context) (string, error) {
	if f.noBus {
		return "", errors.New("connecting to systemd: no such file")
	}
	return "257", nil
}

// RunService implements Manager.
func (f *fake) RunService(_ context.Context, name string, properties []systemd.Property, _ time.Duration) (systemd.Ended, error) {
	f.units = append(f.units, name)
	if !slices.ContainsFunc(properties, func(p systemd.Property) bool { return p.Name == "ProtectSystem" && p.Value == "strict" }) {
		f.t.Errorf("%s runs without a sandbox", name)
	}
	if f.serve != nil {
		return f.serve(name)
	}
	f.answer(record.Outcome{Sentences: []string{"fine"}})
	return systemd.Ended{Result: "success"}, nil
}

// answer takes the message and replies, as the installer on the host does.
func (f *fake) answer(o record.Outcome) record.Order {
	f.t.Helper()
	m, order, err := f.host.Take("x1")
	if err == nil {
		err = errors.Join(m.Reply(o), m.Close())
	}
	if err != nil {
		f.t.Error(err)
	}
	return order
}

// files lists the files of the installer's folder.
func (f *fake) files() []string {
	f.t.Helper()
	entries, err := os.ReadDir(f.host.Folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	all := make([]string, 0, len(entries))
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

var order = record.Order{Action: record.Apply, Node: "n", Section: "systemPartition: {}\n", MonitorArgs: "--debug", Trial: time.Minute}

// TestDo: the host gets the program and the order, and the caller its answer. No message is left. A
// program that is there is not written again.
func TestDo(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var got record.Order
	f.serve = func(string) (systemd.Ended, error) {
		got = f.answer(record.Outcome{Sentences: []string{"fine"}})
		return systemd.Ended{Result: "success"}, nil
	}
	if o := f.c.Do(t.Context(), order); o.Status != record.Done || o.Text() != "done: fine" || got != order {
		t.Errorf("%+v, %+v", o, got)
	}
	if got := f.files(); !slices.Equal(got, []string{"partition-installer"}) || !slices.Equal(f.units, []string{"partition-install-x1.service"}) {
		t.Errorf("%v, %v", got, f.units)
	}
	if want := order.Trial.String() + " at most: journalctl -f -u partition-install-x1.service"; !strings.Contains(f.said, want) {
		t.Errorf("%q; want %q", f.said, want)
	}
	program := filepath.Join(f.host.Folder, "partition-installer")
	was, err := os.Stat(program)
	if err != nil || was.Mode() != 0o755 {
		t.Fatal(was, err)
	}
	f.c.Do(t.Context(), order)
	if is, err := os.Stat(program); err != nil || !os.SameFile(was, is) {
		t.Errorf("the program was written again: %v", err)
	}
	if err := os.WriteFile(f.c.Program, []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.c.Do(t.Context(), order)
	if data, err := os.ReadFile(program); err != nil || string(data) != "another" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestOtherCallEnds: another call that ends leaves the program and the message of one that waits.
func TestOtherCallEnds(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.serve = func(string) (systemd.Ended, error) {
		taken, _, err := f.host.Take("x1") // and waits for the lock of the node
		if err = errors.Join(err, f.host.Clean(record.State{}), taken.Close()); err != nil {
			t.Error(err)
		}
		if got := f.files(); !slices.Equal(got, []string{"message-x1.json", "partition-installer"}) {
			t.Errorf("systemd finds %q", got)
		}
		f.answer(record.Outcome{})
		return systemd.Ended{Result: "success"}, nil
	}
	if o := f.c.Do(t.Context(), order); o.Status != record.Done {
		t.Errorf("%+v", o)
	}
}

// TestWhileRequested: the host sees the end of its caller, however that ends.
func TestWhileRequested(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	if err := os.Mkdir(f.host.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	asked, err := f.c.Ask("x1", order)
	if err != nil {
		t.Fatal(err)
	}
	taken, _, err := f.host.Take("x1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := taken.WhileRequested(t.Context())
	defer cancel(nil)
	if err := ctx.Err(); err != nil {
		t.Error(err)
	}
	if err := asked.Close(); err != nil { // as the kernel does for a process that ends
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); record.ReasonOf(err) != record.Timeout || !strings.Contains(err.Error(), "given up") {
		t.Errorf("%v", err)
	}
}

// TestNotBegun: without a bus, or as another user than root, nothing is written.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*fake){
		"does not answer":   func(f *fake) { f.noBus = true },
		"runs as UID 65532": func(f *fake) { f.c.UID = 65532 },
	} {
		f := newFake(t)
		spoil(f)
		o := f.c.Do(t.Context(), order)
		if o.Status != record.Refused || o.Reason != record.NoBus || !strings.Contains(o.Text(), want) {
			t.Errorf("%+v; want %q", o, want)
		}
		if got := f.files(); len(got) > 0 || len(f.units) > 0 {
			t.Errorf("%v, %v", got, f.units)
		}
	}
}

// TestDied: a service that says nothing, and a caller that loses the bus. The outcome never says
// that the node is as before without knowing it.
func TestDied(t *testing.T) {
	t.Parallel()
	success, killed := systemd.Ended{Result: "success"}, systemd.Ended{Result: "signal", Status: 9}
	for name, test := range map[string]struct {
		action    record.Action
		ended     systemd.Ended
		err       error
		confined  bool
		wentBack  systemd.Ended
		kept      string // the call that the state says was kept
		status    record.Status
		reason    record.Reason
		goesBacks bool
	}{
		"SELinux":         {record.Apply, systemd.Ended{Result: "exit-code", Status: 203}, nil, true, success, "", record.Refused, record.SELinux, false},
		"noexec":          {record.Apply, systemd.Ended{Result: "exit-code", Status: 203}, nil, false, success, "", record.Refused, record.Failed, false},
		"a survey":        {record.Survey, killed, nil, false, success, "", record.Refused, record.Failed, false},
		"goes back":       {record.Apply, killed, nil, false, success, "", record.WentBack, record.Failed, true},
		"remains":         {record.Apply, killed, nil, false, systemd.Ended{Result: "exit-code", Status: 4}, "", record.Remains, record.Failed, true},
		"too long":        {record.Apply, systemd.Ended{Result: "timeout"}, nil, false, success, "", record.WentBack, record.Timeout, true},
		"kept":            {record.Apply, killed, nil, false, success, "x1", record.Done, "", true},
		"another is kept": {record.Apply, killed, nil, false, success, "x0", record.WentBack, record.Failed, true},
		"a removal":       {record.Remove, killed, nil, false, success, "x0", record.Remains, record.Failed, false},
		"the bus is lost": {record.Apply, systemd.Ended{}, errors.New("no connection"), false, success, "", record.Remains, record.Failed, false},
	} {
		f := newFake(t)
		f.c.Confined = test.confined
		f.serve = func(unit string) (systemd.Ended, error) {
			if strings.HasSuffix(unit, "-back.service") {
				return test.wentBack, nil
			}
			if test.kept != "" {
				if err := f.host.SetState(record.State{Kept: &record.Kept{By: test.kept}}); err != nil {
					t.Error(err)
				}
			}
			return test.ended, test.err
		}
		o := order
		o.Action = test.action
		got := f.c.Do(t.Context(), o)
		if got.Status != test.status || got.Reason != test.reason {
			t.Errorf("%s: %+v; want %d, %s", name, got, test.status, test.reason)
		}
		if got.Status == record.Remains && strings.Contains(got.Text(), "is as before:") {
			t.Errorf("%s: %s", name, got.Text())
		}
		if goesBack := len(f.units) == 2; goesBack != test.goesBacks {
			t.Errorf("%s: %v", name, f.units)
		}
		if left := f.files(); slices.ContainsFunc(left, func(s string) bool { return strings.HasPrefix(s, "message-") }) {
			t.Errorf("%s: left: %q", name, left)
		}
	}
}
