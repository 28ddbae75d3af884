// Command league compares what ends pods when memory is short: this project's monitor, other
// programs, and nothing. One node of the lab gets each keeper in turn, and with it each load. A
// file of raw data gets a line for each round. The table of all rounds in it goes to standard
// output. It exits with status 1 if ours has done harm in a round of this run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"node-partition.io/node-partition/tests/e2e/league/verdict"
	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "league:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("league", flag.ExitOnError)
	onlyKeepers := flags.String("keepers", ".", "regular expression for the names of keepers")
	flavour := flags.String("flavour", "trixie", "kind of node, as tests/lab has them")
	onlyLoads := flags.String("loads", ".", "regular expression for the names of loads")
	rounds := flags.Int("rounds", 3, "rounds of each load with each keeper; 0 only makes the table")
	raw := flags.String("raw", "league.jsonl", "file of raw data, to which rounds are added")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ofKeepers, err := regexp.Compile(*onlyKeepers)
	if err != nil {
		return err
	}
	ofLoads, err := regexp.Compile(*onlyLoads)
	if err != nil {
		return err
	}
	ks := slices.DeleteFunc(slices.Clone(keepers), func(k keeper) bool { return !ofKeepers.MatchString(k.name) })
	ls := slices.DeleteFunc(slices.Clone(loads), func(l load) bool { return !ofLoads.MatchString(l.name) })
	file, err := os.OpenFile(*raw, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	before, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if *rounds > 0 {
		err = play(ctx, *flavour, ks, ls, *rounds, json.NewEncoder(file))
	}
	played, readErr := verdict.Read(io.NewSectionReader(file, before, math.MaxInt64-before))
	if _, seekErr := file.Seek(0, 0); seekErr != nil {
		return errors.Join(err, seekErr)
	}
	all, allErr := verdict.Read(file)
	return errors.Join(err, readErr, allErr, verdict.Table(os.Stdout, all), verdict.Harm(played, ours))
}

// play boots a node and plays all rounds on it.
func play(ctx context.Context, flavour string, ks []keeper, ls []load, rounds int, raw *json.Encoder) (err error) {
	begin := time.Now()
	progress := func(line string) { fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(begin).Seconds(), line) }
	built, err := os.MkdirTemp("", "league")
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	progress("building")
	files, err := programs(built)
	if err != nil {
		return err
	}
	control, err := lab.StartControlPlane(ctx, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, control.Stop()) }()
	n, err := lab.Start(ctx, lab.Options{
		Flavour: flavour, ControlPlane: control, Restore: true, Files: files, Progress: progress,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			dir := filepath.Join(os.TempDir(), "league-"+n.Name)
			err = errors.Join(fmt.Errorf("%w; what the node was like is in %s", err, dir), n.Collect(ctx, dir))
		}
		err = errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
	}()
	if err := n.WaitReady(ctx); err != nil {
		return err
	}
	// It is no file of the boot, because /run is mounted later.
	if err := n.CopyTo(ctx, lab.File{Path: onNode, Source: filepath.Join(built, "onnode"), Mode: 0o755}); err != nil {
		return err
	}
	f := &field{Node: n, control: control}
	if _, err := n.Run(ctx, "rm "+lab.ManifestDir+"/*"); err != nil {
		return err
	}
	progress("installing the keepers")
	if err := f.install(ctx, ks); err != nil {
		return fmt.Errorf("install the keepers: %w", err)
	}
	for _, k := range ks {
		progress("keeper: " + k.name)
		if err := f.change(ctx, k); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		for _, l := range ls {
			if l.name == thrash && k.section == "" {
				continue
			}
			for i := range rounds {
				line, err := f.round(ctx, l)
				if err != nil {
					return fmt.Errorf("%s, %s, round %d: %w", k.name, l.name, i+1, err)
				}
				if err := raw.Encode(line); err != nil {
					return err
				}
				progress(fmt.Sprintf("%+v", line))
			}
		}
	}
	return nil
}

// programs builds what the node gets into a folder.
func programs(to string) ([]lab.File, error) {
	var err error
	for name, pkg := range map[string]string{
		"partition-generator": "cmd/partition-generator",
		"partition-monitor":   "cmd/partition-monitor",
		"onnode":              "tests/e2e/league/onnode",
	} {
		err = errors.Join(err, testkit.Build("node-partition.io/node-partition/"+pkg, filepath.Join(to, name)))
	}
	if err != nil {
		return nil, err
	}
	return lab.Installed("../..", "deploy/installed", to, "partition-generator", "partition-monitor", monitorUnit)
}
