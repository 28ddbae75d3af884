// Command sizebench judges rules for the size of a partition: ours, and those that people would use
// instead. docs/how-large.md has its table.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

var sizes = []int{1, 3, 5, 15, 40}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sizebench:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("sizebench", flag.ContinueOnError)
	path := flags.String("trace", "", "`FILE` with the columns container,minute,utilisation, which may be compressed by gzip")
	weeks := flags.Uint64("weeks", 0, "judge two weeks that are made with this `SEED`, instead of a trace")
	train := flags.String("train", "", "`MINUTES` from which the contenders learn (default 360,684; of weeks 1440,10080)")
	draws := flags.Int("draws", 10000, "partitions for each number of members and length of training")
	seed := flags.Uint64("seed", 1, "`SEED` of the draws")
	form := flags.String("o", "table", "`FORM`: table or json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var trace []series
	var err error
	lengths := "360,684"
	switch {
	case (*path == "") == (*weeks == 0):
		return errors.New("want -trace FILE or -weeks SEED")
	case *path != "":
		trace, err = readTrace(*path)
	default:
		trace, lengths = makeWeeks(*weeks), "1440,10080"
	}
	if err != nil {
		return err
	}
	if *train != "" {
		lengths = *train
	}
	var cells []cell
	for text := range strings.SplitSeq(lengths, ",") {
		minutes, err := strconv.Atoi(text)
		if err != nil || minutes < 1 {
			return fmt.Errorf("-train=%s: want minutes such as 360,684", *train)
		}
		for _, members := range sizes {
			if members > len(trace) {
				continue
			}
			if c := judge(trace, all, members, minutes, *draws, *seed); len(c.draws) > 0 {
				cells = append(cells, c)
			}
		}
	}
	if len(cells) == 0 {
		return errors.New("the trace is too short: want an hour after the training")
	}
	var list []result
	for _, c := range cells {
		list = append(list, c.results(all)...)
	}
	switch *form {
	case "table":
		return writeTable(out, list)
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(list)
	}
	return fmt.Errorf("-o=%s: want table or json", *form)
}
