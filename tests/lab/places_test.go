package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// TestPlaces: no more tests have a place than there are places, the longest one that waits gets the
// next place, and a ticket whose owner has ended blocks no other.
func TestPlaces(t *testing.T) {
	t.Setenv(placesEnv, "1")
	c := cache{Dir: t.TempDir()}
	for test, took := range map[string]time.Duration{"long": 300 * time.Second, "short": 5 * time.Second} {
		if err := c.noteDuration(test, took); err != nil {
			t.Fatal(err)
		}
	}
	dead := filepath.Join(c.Dir, "places", "queue", "00000-0-0")
	if err := os.MkdirAll(filepath.Dir(dead), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dead, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	release, err := c.takePlace(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("deadline of the test"))
	defer cancel()
	if _, err := c.takePlace(ctx, "second"); err == nil {
		t.Fatal("a second place where there is one")
	}

	got := make(chan string, 3)
	wait := func(test string) {
		release, err := c.takePlace(t.Context(), test)
		if err != nil {
			got <- err.Error()
			return
		}
		got <- test
		release()
	}
	waiting := func(n int) {
		t.Helper()
		err := waitFor(t.Context(), "tickets", time.Millisecond, func(context.Context) (bool, string, error) {
			entries, err := os.ReadDir(filepath.Dir(dead))
			return len(entries) == n, "", err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, test := range []string{"short", "long", "never seen"} {
		go wait(test)
		waiting(i + 1)
	}
	release()
	if order := []string{<-got, <-got, <-got}; !slices.Equal(order, []string{"never seen", "long", "short"}) {
		t.Errorf("places were given in the order %q", order)
	}
}

// TestQueueIsJoinedWhileOthersLook: firstInQueue may run between the creation and the lock of a
// ticket, and then takes its owner for ended.
func TestQueueIsJoinedWhileOthersLook(t *testing.T) {
	t.Parallel()
	queue := t.TempDir()
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			for range 200 {
				ticket, leave, err := joinQueue(queue, time.Second)
				if err != nil {
					return err
				}
				if _, err := os.Stat(ticket); err != nil {
					return fmt.Errorf("a ticket that was given: %w", err)
				}
				if _, err := firstInQueue(queue); err != nil {
					return err
				}
				leave()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
