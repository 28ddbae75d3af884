package lab

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
)

func TestPartsOfEverything(t *testing.T) {
	var ps parts
	c := cache{Dir: t.TempDir()}
	for _, f := range Flavours() {
		if _, err := ps.add(c, f, nil); err != nil {
			t.Fatal(err)
		}
	}
	ps.addProgram(c, controlPlanePrograms(), nil)
	ps.addProgram(c, schedulerProgram(), nil)
	// All images wait for the kubelet. The programs behind it find its objects.
	if got, want := partNames(ps.kubernetes), []string{"kubelet-1.37", "control-plane-1.37", "scheduler-1.37"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := partNames(ps.programs), []string{"pause", "podtool", "containerd-2.3", "runc-1.2", "crio-1.34"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	releases := partNames(ps.debian)
	for i := range releases {
		releases[i], _, _ = strings.Cut(releases[i], "-")
	}
	if want := []string{"qemu", "trixie", "bookworm", "forky"}; !slices.Equal(releases, want) {
		t.Errorf("%q, want %q", releases, want)
	}
}

func partNames(list []*part) (names []string) {
	for _, p := range list {
		names = append(names, p.name)
	}
	return names
}

func TestInOrder(t *testing.T) {
	const atATime = 2
	var mu sync.Mutex
	var begun []string
	var now, most atomic.Int64
	var list []*part
	together := make(chan struct{})
	for _, name := range []string{"a", "b", "c", "d"} {
		find(&list, name, func(context.Context) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			mu.Lock()
			begun = append(begun, name)
			if len(begun) == atATime {
				close(together)
			}
			mu.Unlock()
			<-together // the first two are made side by side, or never
			return nil
		})
	}
	group, ctx := errgroup.WithContext(t.Context())
	inOrder(ctx, group, list, atATime)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if most.Load() != atATime || len(begun) != len(list) {
		t.Errorf("%d side by side, begun %q", most.Load(), begun)
	}
	for _, p := range list {
		select {
		case <-p.made:
		default:
			t.Errorf("%s is not made", p.name)
		}
	}
}

func TestInOrderStopsAtAFailure(t *testing.T) {
	var list []*part
	failure := errors.New("no space")
	find(&list, "a", func(context.Context) error { return failure })
	find(&list, "b", func(context.Context) error { t.Error("made after a failure"); return nil })
	group, ctx := errgroup.WithContext(t.Context())
	inOrder(ctx, group, list, 1)
	if err := group.Wait(); !errors.Is(err, failure) || !strings.Contains(err.Error(), "prepare a") {
		t.Errorf("error %v", err)
	}
	select {
	case <-list[0].made:
		t.Error("a is made")
	default:
	}
}
