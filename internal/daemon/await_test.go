package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
)

// TestChangesAwait: the check is made at once and after each change, and never in between.
func TestChangesAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c changes
		checks, left := 0, 3
		done := make(chan error, 1)
		go func() {
			done <- c.await(t.Context(), func() error {
				if checks++; checks <= left {
					return errNotYet
				}
				return nil
			})
		}()
		for n := 1; n <= left; n++ {
			synctest.Wait()
			if checks != n {
				t.Errorf("%d checks; want %d", checks, n)
			}
			c.note()
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.note() // no one waits
		stopped := errors.New("the service is stopping")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { done <- c.await(ctx, func() error { return errNotYet }) }()
		synctest.Wait()
		cancel(stopped)
		if err := <-done; !errors.Is(err, stopped) || !strings.Contains(err.Error(), errNotYet.Error()) {
			t.Errorf("%v; want the cause, and why not", err)
		}
	})
}

// TestSettled: a partition that is on has to be active. If all are off, the pods that leave have to
// be gone, and those that stay do not count.
func TestSettled(t *testing.T) {
	t.Parallel()
	on := []unitname.PartitionName{unitname.System}
	for name, test := range map[string]struct {
		on     []unitname.PartitionName
		active bool
		reason podmove.Reason
		want   error
	}{
		"active":           {on, true, podmove.ReasonPending, nil},
		"not active":       {on, false, "", errInactive},
		"off, one leaves":  {nil, true, podmove.ReasonPending, errLeaving},
		"off, one ends":    {nil, true, podmove.ReasonTerminating, errLeaving},
		"off, one stays":   {nil, true, podmove.ReasonNextStart, nil},
		"off, all are out": {nil, false, "", nil},
	} {
		last := podmove.Report{Pods: []podmove.PodReport{{}, {Reason: test.reason}}}
		err := settled(test.on, func(unitname.PartitionName) bool { return test.active }, last)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}
