package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitForSeesTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		began := time.Now()
		err := waitFor(t.Context(), "three", time.Second, func(context.Context) (bool, string, error) {
			looks++
			if looks < 3 {
				return false, "", errors.New("refused")
			}
			return true, "", nil
		})
		if err != nil || looks != 3 || time.Since(began) != 2*time.Second {
			t.Errorf("%d looks in %s: %v", looks, time.Since(began), err)
		}
	})
}

func TestWaitForSaysWhatItSawLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := waitFor(ctx, "pods running", time.Second, func(context.Context) (bool, string, error) {
			return false, "1 of 3 pods", refused
		})
		var wait *waitError
		if !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, refused) {
			t.Fatalf("error %v", err)
		}
		for _, part := range []string{"pods running", "10.0 s", "1 of 3 pods", "connection refused", "deadline"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q lacks %q", err, part)
			}
		}
	})
}

// TestWaitForKeepsTheLastWholeLook: a poll that the deadline cut off must not hide the result of
// the one before it.
func TestWaitForKeepsTheLastWholeLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		first := true
		err := waitFor(ctx, "something", time.Second, func(ctx context.Context) (bool, string, error) {
			if first {
				first = false
				return false, "the kubelet is healthy", nil
			}
			<-ctx.Done()
			return false, "", ctx.Err()
		})
		var wait *waitError
		if !errors.As(err, &wait) || wait.LastSeen != "the kubelet is healthy" || wait.Err != nil {
			t.Errorf("error %v", err)
		}
	})
}

func TestWaitForHasADeadlineOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := waitFor(context.Background(), "never", time.Second, func(context.Context) (bool, string, error) { return false, "", nil })
		if err == nil || time.Since(began) != defaultTimeout {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// TestPauseAfter: a node has three quarters of its time for itself, but no pause is longer than
// five seconds. A node that does not answer is polled again after the interval.
func TestPauseAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		took time.Duration
		err  error
		want time.Duration
	}{
		{"quick look", 10 * time.Millisecond, nil, 250 * time.Millisecond},
		{"slow look", time.Second, nil, 3 * time.Second},
		{"look that waits for systemd", 45 * time.Second, nil, 5 * time.Second},
		{"slow command that failed", time.Second, fmt.Errorf("look: %w", &CommandError{Status: 1}), 3 * time.Second},
		{"no answer", 2 * time.Second, errors.New("no answer"), 250 * time.Millisecond},
	} {
		if got := pauseAfter(250*time.Millisecond, c.took, c.err); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestCommandError(t *testing.T) {
	err := error(&CommandError{Node: "n", Command: "false", Status: 1, Stdout: "out", Stderr: "why\n"})
	if err.Error() != "node n: false: status 1: why" {
		t.Errorf("%q", err)
	}
	err = &CommandError{Node: "n", Command: "sleep 9", Status: 143, Stdout: "out"}
	if err.Error() != "node n: sleep 9: status 143: out" {
		t.Errorf("%q", err)
	}
}

func TestWithDefaultTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := withDefaultTimeout(t.Context())
		defer cancel()
		<-ctx.Done()
		if time.Since(began) != defaultTimeout || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) || !strings.Contains(context.Cause(ctx).Error(), "3m0s") {
			t.Errorf("after %s: %v", time.Since(began), context.Cause(ctx))
		}
		own, cancelOwn := context.WithTimeout(t.Context(), time.Hour)
		defer cancelOwn()
		if kept, cancel := withDefaultTimeout(own); kept != own {
			cancel()
			t.Error("a deadline was replaced")
		}
	})
}
