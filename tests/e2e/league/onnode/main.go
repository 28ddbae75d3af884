// Command onnode is the part of tests/e2e/league that runs on a node, as root, and in its pods.
//
//	onnode available METER    print the bytes that are available
//	onnode watch METER BYTES  open the gate, and print what is seen as JSON; BYTES is the threshold
//	onnode gate COMMAND ...   become the command when the gate opens
//	onnode work               work, and count it
//	onnode thrash             have the node wait for its disk
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// gate and work are files that the node shares with its pods: the first opens the gate, and the
	// second counts the neighbour's work.
	gate = "/run/league/gate"
	work = "/run/league/work"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "onnode:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "work":
		return doWork()
	case len(args) > 1 && args[0] == "gate":
		if err := awaitGate(); err != nil {
			return err
		}
		return syscall.Exec(args[1], args[1:], os.Environ())
	case len(args) == 1 && args[0] == "thrash":
		return thrash()
	case len(args) == 2 && args[0] == "available":
		left, err := meters[args[1]]()
		fmt.Println(left)
		return err
	case len(args) == 3 && args[0] == "watch":
		threshold, err := strconv.ParseUint(args[2], 10, 64)
		if err != nil {
			return err
		}
		seen, err := watch(meters[args[1]], threshold)
		return errors.Join(err, json.NewEncoder(os.Stdout).Encode(seen))
	}
	return fmt.Errorf("%q: want available METER, watch METER BYTES, gate COMMAND, work or thrash", args)
}

// awaitGate waits until the gate, a FIFO, has a writer. Fifty pods that poll would be a load of
// their own.
func awaitGate() error {
	file, err := os.Open(gate)
	if err == nil {
		err = file.Close()
	}
	return err
}

// unitEvery is the time of a unit of work, if nothing delays it. The neighbour leaves nearly all of
// its CPU to others.
const unitEvery = 20 * time.Millisecond

// doWork holds 32 MiB. A unit of work touches that, allocates a mebibyte, touches it and gives it
// back. Units that are late are not made up for.
func doWork() error {
	held := make([]byte, 32<<20)
	file, err := os.Create(work)
	for units := uint64(1); err == nil; units++ {
		touch(held)
		var memory []byte
		memory, err = unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return err
		}
		touch(memory)
		if err = unix.Munmap(memory); err == nil {
			_, err = file.WriteAt(binary.LittleEndian.AppendUint64(nil, units), 0)
		}
		<-time.After(unitEvery)
	}
	return err
}

func touch(memory []byte) {
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i]++
	}
}

// rate returns the neighbour's units of work in a second, while f runs.
func rate(f func() error) (float64, error) {
	before, err := worked()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := f(); err != nil {
		return 0, err
	}
	after, err := worked()
	if after < before { // it was ended, and began again
		before = 0
	}
	return float64(after-before) / time.Since(begin).Seconds(), err
}

// worked returns the units of work so far.
func worked() (uint64, error) {
	data, err := os.ReadFile(work)
	if err == nil && len(data) != 8 {
		err = fmt.Errorf("%s has %d bytes, want 8", work, len(data))
	}
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(data), nil
}
