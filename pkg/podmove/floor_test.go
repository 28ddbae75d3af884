package podmove

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/unitname"
)

// TestDecideFloor: the partition has its floor or what its pods have, whatever is more.
// kubepods.slice has as much, unless the kubelet or an operator protects it.
func TestDecideFloor(t *testing.T) {
	t.Parallel()
	type protection = cgroupfs.Protection
	const mebi = 1 << 20
	floor := func(minimum, low uint64) func(*Snapshot) {
		return func(s *Snapshot) { s.Config.Floor = protection{Min: minimum, Low: low} }
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
		"none":                      {floor(0, 0), pod("a", unitname.System), protection{}, protection{}, nil, protection{}, false},
		"none, and an operator has": {floor(0, 0), pod("a", unitname.System), protection{}, protection{Min: mebi}, nil, protection{}, false},
		"of the unit file": {
			floor(4*mebi, 0), pod("a", unitname.System), protection{Min: 4 * mebi}, protection{},
			[]ProtectSpec{{"kubepods.slice", protection{Min: 4 * mebi}}}, protection{Min: 4 * mebi}, false,
		},
		"lost in the partition": {
			floor(4*mebi, 8*mebi), pod("a", unitname.System), protection{}, protection{Min: 4 * mebi, Low: 8 * mebi},
			[]ProtectSpec{{"kubepods-system.slice", protection{Min: 4 * mebi, Low: 8 * mebi}}}, protection{Min: 4 * mebi, Low: 8 * mebi}, false,
		},
		"reset by the kubelet": {
			raised(4*mebi, floor(4*mebi, 0)), pod("a", unitname.System), protection{Min: 4 * mebi}, protection{},
			[]ProtectSpec{{"kubepods.slice", protection{Min: 4 * mebi}}}, protection{Min: 4 * mebi}, false,
		},
		"lowered": {
			raised(4*mebi, floor(2*mebi, 0)), pod("a", unitname.System), protection{Min: 2 * mebi}, protection{Min: 4 * mebi},
			[]ProtectSpec{{"kubepods.slice", protection{Min: 2 * mebi}}}, protection{Min: 2 * mebi}, false,
		},
		"removed": {
			raised(4*mebi, floor(0, 0)), pod("a", unitname.System), protection{}, protection{Min: 4 * mebi},
			[]ProtectSpec{{"kubepods.slice", protection{}}}, protection{}, false,
		},
		"removed, and an operator has more": {
			raised(4*mebi, floor(0, 0)), pod("a", unitname.System), protection{}, protection{Min: 6 * mebi}, nil, protection{}, false,
		},
		"an operator has more": {
			floor(4*mebi, 0), pod("a", unitname.System), protection{Min: 4 * mebi}, protection{Min: 6 * mebi}, nil, protection{Min: 4 * mebi}, false,
		},
		"switched off": {
			raised(4*mebi, func(s *Snapshot) { s.Config.Floor.Min, s.Config.Off = 4*mebi, true }),
			pod("a", unitname.System), protection{Min: 4 * mebi}, protection{Min: 4 * mebi},
			[]ProtectSpec{{"kubepods.slice", protection{}}}, protection{}, false,
		},
		"less than the pods have": {
			floor(0, 4*mebi), pod("a", unitname.System, requests), protection{Low: 4 * mebi}, protection{Low: 3 * mebi},
			[]ProtectSpec{{"kubepods-system.slice", protection{Low: 5 * mebi}}}, protection{}, false,
		},
		"no kubepods.slice": {floor(4*mebi, 0), pod("a", unitname.System), protection{Min: 4 * mebi}, protection{}, nil, protection{}, true},
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

// TestReconcilerFloor: a kubelet that starts resets kubepods.slice, and the next pass restores it.
// The end of the floor is the end of the protection.
func TestReconcilerFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = partitionA
		withFloor := members
		withFloor.Floor.Min = 64 << 20
		r, _ := h.reconciler(Working, withFloor)
		start(t, r)
		whole := filepath.Dir(filepath.Dir(partitionA))
		wantProtected := func(when string, system, parent uint64) {
			t.Helper()
			<-time.After(time.Minute)
			synctest.Wait()
			for slice, want := range map[string]uint64{whole: system, filepath.Dir(whole): parent} {
				limits, err := cgroupfs.FS(h.root).Limits(slice)
				if err != nil || limits.Protection.Min != want {
					t.Errorf("%s: %s has %+v, %v; want %d", when, filepath.Base(slice), limits.Protection, err, want)
				}
			}
		}
		wantProtected("at the start", 64<<20, 64<<20)
		h.cgroup(filepath.Dir(whole), map[string]string{"memory.min": "0", "memory.low": "0"})
		wantProtected("after a start of the kubelet", 64<<20, 64<<20)
		r.SetConfig(members)
		wantProtected("without a floor", 0, 0)
	})
}
