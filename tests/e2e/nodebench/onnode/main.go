// Command onnode measures partition-monitor on a node, as root. tests/e2e/nodebench runs it there,
// one part after the other, and prints its output.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
)

// parts holds the measurements, by the first argument.
var parts = map[string]func(context.Context, settings) ([]figure.Figure, error){
	"cost": cost, "idle": idle,
}

// settings holds the flags.
type settings struct {
	rounds, each int
	runtime      string
	idle         time.Duration
	pods         int
	instruction  time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "onnode:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var s settings
	flags := flag.NewFlagSet("onnode", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", 30, "rounds of pairs")
	flags.IntVar(&s.each, "each", 4, "pairs in a round")
	flags.StringVar(&s.runtime, "runtime", "", "socket of the container runtime")
	flags.DurationVar(&s.idle, "for", 2*time.Minute, "how long to watch an idle node")
	flags.DurationVar(&s.instruction, "instruction", time.Nanosecond, "CPU time of an instruction")
	flags.IntVar(&s.pods, "pods", 100, "pods of an idle node's partition")
	if len(args) == 0 || parts[args[0]] == nil {
		return errors.New("want cost or idle")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	figures, err := parts[args[0]](ctx, s)
	if err != nil {
		err = fmt.Errorf("%s: %w", args[0], err)
	}
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(figures))
}

// late bounds the wait for anything.
const late = 20 * time.Second

// eventually polls for a condition that has no event.
func eventually(ctx context.Context, what string, cond func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(late)
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return fmt.Errorf("not within %s: %s", late, what)
		}
	}
	return nil
}

// pause waits for d.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// connect returns a client that is connected until ctx ends.
func connect(ctx context.Context) (*systemd.Client, error) {
	// Longer than the monitor's timeout, because slow answers are to be measured.
	c := systemd.New(systemd.Options{Cgroups: tree, Timeout: time.Minute})
	go func() { _ = c.Run(ctx) }()
	return c, eventually(ctx, "connected with systemd", c.Connected)
}
