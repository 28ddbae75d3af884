package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// placesEnv sets the number of machines of tests that may run at once on this host.
const placesEnv = "LAB_NODES"

// Places returns the number of machines of tests that may run at once. Without LAB_NODES it is the
// number of cores of the host, because an emulated node computes nearly all the time, and with more
// of them systemd no longer answers in time (seen with three on two cores). It is less if the
// memory of the host does not hold as many.
func Places() (int, error) {
	if text := os.Getenv(placesEnv); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%s=%s: want a number of machines, 1 or more", placesEnv, text)
		}
		return n, nil
	}
	memory, err := availableMiB()
	if err != nil {
		return 0, err
	}
	return max(1, min(runtime.NumCPU(), memory/(defaultMemoryMiB+512))), nil
}

// takePlace waits for one of the places that the tests of all processes on this host share. A test
// that was never seen before gets the next place, and then the one that took longest last time: the
// whole run waits for a long test that begins last. The kernel gives a place back when this process
// ends, however it ends.
func (c cache) takePlace(ctx context.Context, test string) (release func(), err error) {
	n, err := Places()
	if err != nil {
		return nil, err
	}
	return c.takeOneOf(ctx, test, n)
}

// takeOneOf waits for one of the first n places.
func (c cache) takeOneOf(ctx context.Context, test string, n int) (release func(), err error) {
	queue := filepath.Join(c.Dir, "places", "queue")
	if err := os.MkdirAll(queue, 0o755); err != nil {
		return nil, fmt.Errorf("place for a machine: %w", err)
	}
	ticket, leave, err := joinQueue(queue, c.lastDuration(test))
	if err != nil {
		return nil, fmt.Errorf("place for a machine: %w", err)
	}
	defer leave()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		first, err := firstInQueue(queue)
		if err != nil {
			return nil, fmt.Errorf("place for a machine: %w", err)
		}
		for i := 0; i < n && first == ticket; i++ {
			release, err := tryLock(filepath.Join(c.Dir, "places", strconv.Itoa(i)))
			if err != nil {
				return nil, fmt.Errorf("place for a machine: %w", err)
			}
			if release != nil {
				return release, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("place for a machine: %d run: %w", n, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// takeAllPlaces waits until no other test has a machine, and keeps others from one. Only one test
// at a time takes one place after the other: two would wait for each other.
func (c cache) takeAllPlaces(ctx context.Context, test string) (release func(), err error) {
	n, err := Places()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, "places"), 0o755); err != nil {
		return nil, fmt.Errorf("place for a machine: %w", err)
	}
	one, err := lockFile(ctx, filepath.Join(c.Dir, "places", "all"))
	if err != nil {
		return nil, fmt.Errorf("place for a machine: %w", err)
	}
	held := []func(){one}
	release = func() {
		for _, r := range slices.Backward(held) {
			r()
		}
	}
	for range n {
		place, err := c.takeOneOf(ctx, test, n)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, place)
	}
	return release, nil
}

// joinQueue makes a ticket that belongs to its owner until leave is called or this process ends.
func joinQueue(queue string, last time.Duration) (ticket string, leave func(), err error) {
	for leave == nil { // firstInQueue removed it before it was locked
		ticket = filepath.Join(queue, ticketName(last, time.Now()))
		if leave, err = tryLock(ticket); err != nil {
			return "", nil, err
		}
	}
	return ticket, leave, nil
}

// ticketName returns a name that sorts by the last duration, longest first, and then by arrival. No
// two arrivals have the same.
func ticketName(last time.Duration, came time.Time) string {
	const day = 24 * 60 * 60
	order := 0 // not known
	if last > 0 {
		order = max(1, day-int(last.Seconds()))
	}
	return fmt.Sprintf("%05d-%019d-%d", order, came.UnixNano(), os.Getpid())
}

// firstInQueue returns the ticket that is next, and removes tickets whose owners have ended.
func firstInQueue(queue string) (string, error) {
	entries, err := os.ReadDir(queue) // sorted by name
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		ticket := filepath.Join(queue, e.Name())
		dead, err := tryLock(ticket)
		if err != nil {
			return "", err
		}
		if dead == nil {
			return ticket, nil
		}
		dead() // which removes it
	}
	return "", nil
}

// lastDuration returns the time for which a test had its node in its last run, or 0 if there is no
// record.
func (c cache) lastDuration(test string) time.Duration {
	data, err := os.ReadFile(c.durationFile(test))
	if err != nil {
		return 0
	}
	last, err := time.ParseDuration(string(data))
	if err != nil {
		return 0
	}
	return last
}

// noteDuration records the time for which a test had its node.
func (c cache) noteDuration(test string, took time.Duration) error {
	if err := os.MkdirAll(filepath.Dir(c.durationFile(test)), 0o755); err != nil {
		return err
	}
	return writeFileAtomic(c.durationFile(test), []byte(took.Round(time.Second).String()), 0o644)
}

func (c cache) durationFile(test string) string {
	return filepath.Join(c.Dir, "durations", notInFileName.ReplaceAllString(test, "_"))
}
