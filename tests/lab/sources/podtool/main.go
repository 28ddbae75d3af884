// Podtool is what a pod of a test does: one thing that a test can see from outside, until SIGTERM, which ends it with
// status 0. It says "ready" when it has begun.
//
//	podtool alloc SIZE                    allocate and touch SIZE bytes, as the first act
//	podtool grow START RATE MAX           allocate START bytes, then RATE a second, up to MAX
//	podtool leak DELAY START RATE MAX     the same, but nothing more than START for DELAY, as in 10s
//	podtool forks                         have many short-lived children, and a chain of processes that replace each other
//	podtool device PATH TYPE MAJOR MINOR  say five times a second whether the device may be made at PATH and opened
//	podtool echo PORT                     send back what comes in over TCP
//	podtool rush DELAY THREADS SIZE       after DELAY touch SIZE bytes with so many threads, as fast as they can
//	podtool fill DIR RATE SIZE            write RATE bytes a second to a file, up to SIZE
//	podtool open DIR RATE COUNT           open RATE new files a second, up to COUNT, and keep them open
//	podtool read DIR RATE SIZE            read a file of SIZE bytes again and again, RATE bytes a second: page cache
//	podtool deaf SUBCOMMAND ...           any of these, not ended by SIGTERM
//
// A size is a number of bytes, with Ki, Mi or Gi behind it if need be.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	// Before anything else: a test wants to know to whom the first byte of a container is charged.
	if len(os.Args) == 3 && os.Args[1] == "alloc" {
		if err := alloc(os.Args[2]); err != nil {
			fail(err)
		}
		ready()
		waitForTerm()
		return
	}
	args := os.Args[1:]
	deaf := len(args) > 0 && args[0] == "deaf"
	if deaf {
		args = args[1:]
	}
	go func() {
		waitForTerm()
		if !deaf {
			os.Exit(0)
		}
	}()
	if err := run(args); err != nil {
		fail(err)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("no subcommand: use alloc, grow, leak, rush, forks, device, echo, fill, open, read or deaf")
	}
	commands := map[string]struct {
		arguments int
		run       func(args []string) error
	}{
		"grow": {3, grow}, "leak": {4, leak}, "rush": {3, rush}, "forks": {0, forks}, "device": {4, device}, "echo": {1, echo},
		"fill": {3, fill}, "open": {3, open}, "read": {3, read},
	}
	command, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("subcommand %q: not known: use alloc, grow, leak, rush, forks, device, echo, fill, open, read or deaf", args[0])
	}
	if len(args)-1 != command.arguments {
		return fmt.Errorf("%s: %d arguments: want %d", args[0], len(args)-1, command.arguments)
	}
	return command.run(args[1:])
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "podtool:", err)
	os.Exit(1)
}

func ready() { fmt.Println("ready") }

// waitForTerm returns at SIGTERM. Without a handler PID 1 of a container would not notice it.
func waitForTerm() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	<-term
}

// parseSize reads "1048576", "1024Ki", "1Mi".
func parseSize(text string) (int, error) {
	number, shift := text, 0
	for suffix, s := range map[string]int{"Ki": 10, "Mi": 20, "Gi": 30} {
		if n, ok := strings.CutSuffix(text, suffix); ok {
			number, shift = n, s
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > 1<<40>>shift {
		return 0, fmt.Errorf("size %q: want bytes up to 1024Gi, as in 1048576, 1024Ki, 1Mi or 1Gi", text)
	}
	return n << shift, nil
}

// parseSizes reads several.
func parseSizes(args []string) ([]int, error) {
	sizes := make([]int, 0, len(args))
	for _, text := range args {
		size, err := parseSize(text)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}
