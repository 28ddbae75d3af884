package podmove

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// TestDecideProtection: the partition has its floor or what its pods have, whatever is more.
// kubepods.slice has as much, unless the kubelet or an operator protects it.
func TestDecideProtection(t *testing.T) {
	t.Parallel()
	type protection = cgroups.Protection
	const mebi = 1 << 20
	floor := func(minimum, low uint64) func(*Snapshot) {
		return func(s *Snapshot) { s.Config.Partitions[0].Protection = protection{Min: minimum, Low: low} }
	}
	raised := func(minimum uint64, change func(*Snapshot)) func(*Snapshot) {
		return func(s *Snapshot) { s.Raised.Min = minimum; change(s) }
	}
	requests := func(p *Pod) { p.DefaultCgroup.Limits.Protection.Low = 5 * mebi }
	for name, test := range map[string]struct {
		change          func(*Snapshot)
		pod             Pod
		system, parent  protection // present
		want            []ProtectSpec
		raised          protection
		withoutKubepods bool
	}{
		"none":                      {floor(0, 0), pod("a", partition.System), protection{}, protection{}, nil, protection{}, false},
		"none, and an operator has": {floor(0, 0), pod("a", partition.System), protection{}, protection{Min: mebi}, nil, protection{}, false},
		"of the unit file": {
			floor(4*mebi, 0), pod("a", partition.System), protection{Min: 4 * mebi}, protection{},
			[]ProtectSpec{{"kubepods.slice", protection{Min: 4 * mebi}}}, protection{Min: 4 * mebi}, false,
		},
		"lost in the partition": {
			floor(4*mebi, 8*mebi), pod("a", partition.System), protection{}, protection{Min: 4 * mebi, Low: 8 * mebi},
			[]ProtectSpec{{"kubepods-system.slice", protection{Min: 4 * mebi, Low: 8 * mebi}}}, protection{Min: 4 * mebi, Low: 8 * mebi}, false,
		},
		"reset by the kubelet": {
			raised(4*mebi, floor(4*mebi, 0)), pod("a", partition.System), protection{Min: 4 * mebi}, protection{},
			[]ProtectSpec{{"kubepods.slice", protection{Min: 4 * mebi}}}, protection{Min: 4 * mebi}, false,
		},
		"lowered": {
			raised(4*mebi, floor(2*mebi, 0)), pod("a", partition.System), protection{Min: 2 * mebi}, protection{Min: 4 * mebi},
			[]ProtectSpec{{"kubepods.slice", protection{Min: 2 * mebi}}}, protection{Min: 2 * mebi}, false,
		},
		"removed": {
			raised(4*mebi, floor(0, 0)), pod("a", partition.System), protection{}, protection{Min: 4 * mebi},
			[]ProtectSpec{{"kubepods.slice", protection{}}}, protection{}, false,
		},
		"removed, and an operator has more": {
			raised(4*mebi, floor(0, 0)), pod("a", partition.System), protection{}, protection{Min: 6 * mebi}, nil, protection{}, false,
		},
		"an operator has more": {
			floor(4*mebi, 0), pod("a", partition.System), protection{Min: 4 * mebi}, protection{Min: 6 * mebi}, nil, protection{Min: 4 * mebi}, false,
		},
		"switched off": {
			raised(4*mebi, func(s *Snapshot) { s.Config.Partitions[0].Protection.Min = 4 * mebi; switchOff(s) }),
			pod("a", partition.System), protection{Min: 4 * mebi}, protection{Min: 4 * mebi},
			[]ProtectSpec{{"kubepods.slice", protection{}}}, protection{}, false,
		},
		"less than the pods have": {
			floor(0, 4*mebi), pod("a", partition.System, requests), protection{Low: 4 * mebi}, protection{Low: 3 * mebi},
			[]ProtectSpec{{"kubepods-system.slice", protection{Low: 5 * mebi}}}, protection{}, false,
		},
		"no kubepods.slice, raised before": {
			raised(4*mebi, floor(2*mebi, 0)), pod("a", partition.System), protection{Min: 2 * mebi}, protection{}, nil, protection{Min: 4 * mebi}, true,
		},
		"raised before, and the kubelet protects": {
			raised(4*mebi, floor(0, 0)), pod("a", partition.System, requests), protection{Low: 5 * mebi}, protection{Min: 4 * mebi},
			nil, protection{Min: 4 * mebi}, false,
		},
		"raised by less than was recorded": {
			raised(4*mebi, floor(0, 0)), pod("a", partition.System), protection{}, protection{Min: 2 * mebi},
			[]ProtectSpec{{"kubepods.slice", protection{}}}, protection{}, false,
		},
		"no kubepods.slice": {floor(4*mebi, 0), pod("a", partition.System), protection{Min: 4 * mebi}, protection{}, nil, protection{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Decide(snapshot(func(s *Snapshot) {
				s.Protected = map[string]protection{"kubepods-system.slice": test.system, "kubepods.slice": test.parent}
				if test.withoutKubepods {
					delete(s.Protected, "kubepods.slice")
				}
				test.change(s)
			}, test.pod))
			if !slices.Equal(d.Protect, test.want) || d.Raised != test.raised {
				t.Errorf("%+v, raised %+v; want %+v and %+v", d.Protect, d.Raised, test.want, test.raised)
			}
		})
	}
}

// withProtection returns the policy of the system partition with memory that is never reclaimed.
func withProtection(minimum uint64) Policy {
	c := inSystem("kube-system")
	c.Partitions[0].Protection.Min = minimum
	return c
}

// parentProtection returns memory.min of kubepods.slice.
func (h *fakeHost) parentProtection(t *testing.T) uint64 {
	t.Helper()
	limits, err := cgroups.FS(h.root).Limits(partition.CgroupPath(partition.Default.Slice()))
	if err != nil {
		t.Fatal(err)
	}
	return limits.Protection.Min
}

// TestReconcilerProtectionAfterRestart: the floor is lowered or removed while no monitor runs. The
// next one lowers kubepods.slice, and leaves an operator's value alone.
func TestReconcilerProtectionAfterRestart(t *testing.T) {
	const before = 64 << 20
	for name, test := range map[string]struct {
		now, meanwhile, want uint64
		off                  bool
	}{
		"lowered":                         {32 << 20, before, 32 << 20, false},
		"removed":                         {0, before, 0, false},
		"switched off":                    {before, before, 0, true},
		"removed, and an operator's more": {0, 96 << 20, 96 << 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.comesBack = partitionA
				file := filepath.Join(t.TempDir(), "placement.json")
				run := func(c Policy) {
					r, _ := h.reconciler(Working, c)
					r.options.RecordFile = file
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- r.Run(ctx) }()
					<-time.After(time.Minute)
					cancel()
					<-ended
				}
				run(withProtection(before))
				if got := h.parentProtection(t); got != before {
					t.Fatalf("at first %d, want %d", got, before)
				}
				h.cgroup(partition.CgroupPath(partition.Default.Slice()), map[string]string{"memory.min": fmt.Sprint(test.meanwhile)})
				c := withProtection(test.now)
				c.Partitions[0].Off = test.off
				run(c)
				if got := h.parentProtection(t); got != test.want {
					t.Errorf("after the restart %d, want %d", got, test.want)
				}
			})
		})
	}
}

// silentSystemd does not answer requests for protected memory while it is silent.
type silentSystemd struct {
	*fakeHost
	silent atomic.Bool
}

func (s *silentSystemd) SetMemoryProtection(ctx context.Context, name string, p cgroups.Protection) error {
	if s.silent.Load() {
		return errors.New("no answer")
	}
	return s.fakeHost.SetMemoryProtection(ctx, name, p)
}

// TestReconcilerProtectionSystemdSilent: the floor is removed while systemd does not answer. A
// later reconcile lowers kubepods.slice.
func TestReconcilerProtectionSystemdSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = partitionA
		r, _ := h.reconciler(Working, withProtection(64<<20))
		units := &silentSystemd{fakeHost: h}
		r.options.Units, r.options.RecordFile = units, filepath.Join(t.TempDir(), "placement.json")
		start(t, r)
		<-time.After(time.Minute)
		units.silent.Store(true)
		r.SetConfig(members)
		<-time.After(time.Minute)
		if got := h.parentProtection(t); got != 64<<20 {
			t.Fatalf("%d while systemd is silent: this test shows nothing", got)
		}
		units.silent.Store(false)
		<-time.After(time.Minute)
		if got := h.parentProtection(t); got != 0 {
			t.Errorf("kubepods.slice keeps %d, want 0", got)
		}
	})
}

// TestReconcilerWithoutProtection: a reconcile does not read kubepods.slice, and no record is
// written.
func TestReconcilerWithoutProtection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		r, _ := h.reconciler(Working, members)
		r.options.RecordFile = filepath.Join(t.TempDir(), "placement.json")
		start(t, r)
		<-time.After(time.Minute)
		if _, err := os.Stat(r.options.RecordFile); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the record: %v", err)
		}
		for floor, want := range map[uint64]bool{0: false, 1 << 20: true} {
			r.SetConfig(withProtection(floor))
			s, err := r.snapshot(t.Context())
			if _, got := s.Protected[partition.Default.Slice()]; got != want || err != nil {
				t.Errorf("floor %d: kubepods.slice is read: %t, %v; want %t", floor, got, err, want)
			}
		}
	})
}
