package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// manager receives our notifications to systemd (sd_notify(3)).
type manager struct {
	t  *testing.T
	fd int
}

func newManager(t *testing.T) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", path)
	return &manager{t, fd}
}

// told returns the notifications since the last call.
func (m *manager) told() []string {
	m.t.Helper()
	var all []string
	for buffer := make([]byte, 4096); ; {
		n, _, err := unix.Recvfrom(m.fd, buffer, 0)
		if errors.Is(err, unix.EAGAIN) {
			return all
		}
		if err != nil {
			m.t.Fatal(err)
		}
		all = append(all, string(buffer[:n]))
	}
}

func (m *manager) want(messages ...string) {
	m.t.Helper()
	if got := m.told(); !slices.Equal(got, messages) {
		m.t.Errorf("systemd was told %q; want %q", got, messages)
	}
}

var errNotYet = errors.New("not yet")

// serving runs a service in a bubble, with a watchdog of 30 s. after lets time pass.
func serving(t *testing.T, during func(m *manager, ready, alive *atomic.Bool, after func(time.Duration))) {
	t.Helper()
	m := newManager(t)
	t.Setenv("WATCHDOG_USEC", fmt.Sprint((30 * time.Second).Microseconds()))
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var ready, alive atomic.Bool
		check := func(b *atomic.Bool) func() error {
			return func() error {
				if b.Load() {
					return nil
				}
				return errNotYet
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- (&service{}).run(ctx, check(&alive), check(&ready)) }()
		during(m, &ready, &alive, func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		})
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%v; want %v", err, context.Canceled)
		}
	})
}

// TestServiceReady: the kubelet is ordered after us, so it must not wait for long.
func TestServiceReady(t *testing.T) {
	serving(t, func(m *manager, ready, alive *atomic.Bool, after func(time.Duration)) {
		alive.Store(true)
		after(time.Second)
		m.want()
		ready.Store(true)
		after(100 * time.Millisecond)
		m.want("READY=1", "WATCHDOG=1")
	})
}

func TestServiceReadyTimeout(t *testing.T) {
	serving(t, func(m *manager, _, alive *atomic.Bool, after func(time.Duration)) {
		alive.Store(true)
		after(readyTimeout - time.Second)
		m.want()
		after(2 * time.Second)
		m.want("READY=1", "WATCHDOG=1")
	})
}

// TestServiceWatchdog: systemd is notified three times per period while we are alive. Otherwise it
// is not, and it restarts us.
func TestServiceWatchdog(t *testing.T) {
	serving(t, func(m *manager, ready, alive *atomic.Bool, after func(time.Duration)) {
		alive.Store(true)
		ready.Store(true)
		after(35 * time.Second)
		m.want("READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1")
		alive.Store(false)
		after(40 * time.Second)
		m.want()
	})
}

func TestServiceStatus(t *testing.T) {
	m := newManager(t)
	var s service
	s.status("1 pods in partition system, 0 pods in the wrong partition")
	s.status("1 pods in partition system, 0 pods in the wrong partition")
	s.status("other")
	m.want("STATUS=1 pods in partition system, 0 pods in the wrong partition", "STATUS=other")
}

func TestSummary(t *testing.T) {
	t.Parallel()
	system, defaultSlice := partition.PodSlice(partition.System, v1.PodQOSBurstable, uid), partition.PodSlice(partition.Default, v1.PodQOSBurstable, uid)
	found := report.Report{Pods: []report.Pod{
		{Member: true, Slice: system, Containers: 2},
		{Member: true, Slice: system}, // about to start
		{Member: true, Slice: defaultSlice, Containers: 2, Misplaced: 1, Reason: report.Pending},
		{Slice: defaultSlice, Containers: 1},
		{Slice: system, Containers: 1, Misplaced: 1, Reason: report.Moving}, // no member any more
		{Member: true, Slice: defaultSlice, Containers: 1, Misplaced: 1, Reason: report.Terminating},
	}}
	for _, test := range []struct {
		found    report.Report
		err      error
		unserved error
		want     string
	}{
		{report.Report{}, nil, nil, "0 pods in partition system, 0 pods in the wrong partition"},
		{found, nil, nil, "2 pods in partition system, 2 pods in the wrong partition"},
		{found, errors.New("container runtime: away"), nil, "Failing, retrying: container runtime: away"},
		{report.Report{}, nil, errors.New("listen: in use"), "0 pods in partition system, 0 pods in the wrong partition; " +
			"metrics and health are not served: listen: in use"},
	} {
		if got := summary(test.found, []partition.Name{"system"}, test.err, "", test.unserved); got != test.want || strings.Contains(got, "\n") {
			t.Errorf("%q; want %q", got, test.want)
		}
	}
	found.Pods = append(found.Pods, report.Pod{Slice: partition.PodSlice("telemetry", v1.PodQOSBurstable, uid), Containers: 1})
	const two = "2 pods in partition system, 1 pods in partition telemetry, 2 pods in the wrong partition"
	if got := whereabouts(found, partition.System, "telemetry"); got != two {
		t.Errorf("%q; want %q", got, two)
	}
}
