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
