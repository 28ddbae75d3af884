package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/nri"
	"node-partition.io/node-partition/tests/fakenode"
)

// connectionState is the connection of a service that a test changes.
type connectionState struct {
	mu sync.Mutex
	id string
}

func (s *connectionState) set(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = id
}

func (s *connectionState) get() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// run is a plugin that runs.
type run struct {
	service connectionState
	log     bytes.Buffer
	stub    *nri.Prelaunched
	stop    context.CancelFunc
	closed  chan error // the runtime closes the connection with that error
	ended   chan error
}

// start runs a plugin with these members, after a connection of the service that is over.
func start(t *testing.T, members podmove.Policy, problem error) *run {
	t.Helper()
	r := &run{closed: make(chan error, 1), ended: make(chan error, 1)}
	r.service.set("former")
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	p := plugin{
		log:        slog.New(slog.NewTextHandler(&r.log, nil)),
		connection: r.service.get,
		members:    func() (podmove.Policy, error) { return members, problem },
		serve: func(ctx context.Context, stub *nri.Prelaunched) error {
			r.stub = stub
			select {
			case <-ctx.Done():
				return ctx.Err()
			case err := <-r.closed:
				return err
			}
		},
	}
	go func() { r.ended <- p.run(ctx) }()
	synctest.Wait()
	return r
}

// after reports whether the plugin has ended within some time.
func (r *run) after(d time.Duration) (ended bool, err error) {
	<-time.After(d)
	synctest.Wait()
	select {
	case err := <-r.ended:
		return true, err
	default:
		return false, nil
	}
}

var some = in("kube-system")

// TestRunHandsOver: the plugin stays until another connection of the service has lasted, and ends
// then.
func TestRunHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, some, nil)
		r.stub.Placed()
		stays := func(what, id string, d time.Duration) {
			t.Helper()
			r.service.set(id)
			if ended, err := r.after(d); ended {
				t.Fatalf("%s: ended with %v", what, err)
			}
		}
		stays("a connection to the runtime before", "former", time.Minute)
		stays("no connection", "", time.Minute)
		stays("a connection that has just begun", "a", handover-look)
		stays("one that has ended soon", "", time.Minute)
		stays("one that has just begun", "b", handover-look)
		stays("another one right after it", "c", handover-look)
		if ended, err := r.after(3 * look); !ended || err != nil {
			t.Errorf("ended is %t, %v; want it handed over", ended, err)
		}
		if log := r.log.String(); !strings.Contains(log, "level=INFO") || !strings.Contains(log, "placed=1") {
			t.Errorf("logged %q, want what was placed", log)
		}
	})
}

// TestRunAlone: without the service the plugin ends, and says so where there is a partition.
func TestRunAlone(t *testing.T) {
	for name, test := range map[string]struct {
		members podmove.Policy
		problem error
		says    bool
	}{
		"a partition":     {some, nil, true},
		"no partition":    {podmove.Policy{}, nil, false},
		"unknown members": {podmove.Policy{}, errors.New("broken"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, test.members, test.problem)
				if ended, err := r.after(patience - time.Second); ended {
					t.Fatalf("ended early, with %v", err)
				}
				if ended, err := r.after(2 * time.Second); !ended || err != nil {
					t.Errorf("ended is %t, %v; want it given up", ended, err)
				}
				if says := strings.Contains(r.log.String(), "level=WARN"); says != test.says {
					t.Errorf("logged %q, want a warning: %t", &r.log, test.says)
				}
			})
		})
	}
}

// TestRunRuntimeEnds: a runtime that ends, or that found the plugin too slow, ends it. A signal
// does so without a message.
func TestRunRuntimeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, some, nil)
		closed := errors.New("closed")
		r.closed <- closed
		if ended, err := r.after(0); !ended || !errors.Is(err, closed) || !strings.Contains(r.log.String(), "error=closed") {
			t.Errorf("ended is %t, %v, logged %q", ended, err, &r.log)
		}
		r.stop()
	})
	synctest.Test(t, func(t *testing.T) {
		r := start(t, some, nil)
		r.stop()
		if ended, err := r.after(0); !ended || err != nil || r.log.Len() > 0 {
			t.Errorf("ended is %t, %v, logged %q", ended, err, &r.log)
		}
	})
}

// TestRunReasonOnce: the reason why a member stays is logged once, and not while the runtime waits.
func TestRunReasonOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, some, nil)
		for range 10 {
			r.stub.NotPlaced(errors.New("not known"))
			synctest.Wait()
		}
		r.stop()
		if ended, _ := r.after(0); !ended {
			t.Error("does not end")
		}
		if log := r.log.String(); strings.Count(log, "not known") != 1 || strings.Count(log, "\n") != 1 {
			t.Errorf("logged %q, want the reason once", log)
		}
	})
}

// TestMembersForeignSlice: the plugin places nothing before the partition is active, as the service
// is not started. A slice of another name below kubepods.slice may be somebody else's.
func TestMembersForeignSlice(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	n.Write("/sys/fs/cgroup/kubepods.slice/kubepods-gpu.slice/cgroup.procs", "")
	if p, err := members(n.Host()); err != nil || !p.Off() {
		t.Errorf("%+v, %v; want no partition", p, err)
	}
	n.Partition("67108864")
	if p, err := members(n.Host()); err != nil || p.Off() || len(p.Partitions) != 1 {
		t.Errorf("%+v, %v; want the partition", p, err)
	}
}
