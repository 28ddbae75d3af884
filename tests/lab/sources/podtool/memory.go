package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// alloc holds on to memory: nobody unmaps it.
func alloc(text string) error {
	size, err := parseSize(text)
	if err != nil {
		return err
	}
	_, err = touch(size)
	return err
}

// touch returns memory whose pages are all there. It is mapped past Go's heap, which may give it back.
func touch(size int) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	for i := 0; i < size; i += os.Getpagesize() {
		memory[i] = 1
	}
	return memory, nil
}

// growTick is between two allocations: short, for what grows fast is to grow evenly.
const growTick = 10 * time.Millisecond

func grow(args []string) error { return growAfter(0, args) }

// leak leaves a test the time to see the pod run.
func leak(args []string) error {
	delay, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	return growAfter(delay, args[1:])
}

func growAfter(delay time.Duration, args []string) error {
	sizes, err := parseSizes(args)
	if err != nil {
		return err
	}
	start, rate, limit := sizes[0], sizes[1], sizes[2]
	if _, err := touch(start); err != nil {
		return err
	}
	ready()
	<-time.After(delay)
	return steadily(start, rate, limit, func(more int) error {
		_, err := touch(more)
		return err
	})
}

// steadily has more done, rate in a second, until what is done has grown from start to limit. It says so, and does not return.
func steadily(start, rate, limit int, do func(more int) error) error {
	began := time.Now()
	for done := start; done < limit; {
		<-time.After(growTick)
		// By the clock, not by the tick: a node under load ticks late.
		wanted := min(limit, start+int(float64(rate)*time.Since(began).Seconds()))
		if wanted <= done {
			continue
		}
		if err := do(wanted - done); err != nil {
			return err
		}
		done = wanted
	}
	fmt.Println("full")
	select {}
}

// rush leaves a test the time to see the pod run, and nobody the time for more.
func rush(args []string) error {
	delay, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	threads, err := strconv.Atoi(args[1])
	if err != nil || threads < 1 {
		return fmt.Errorf("threads %q: want a number from 1 on", args[1])
	}
	size, err := parseSize(args[2])
	if err != nil {
		return err
	}
	ready()
	<-time.After(delay)
	errs := make(chan error)
	for range threads {
		go func() {
			runtime.LockOSThread()
			_, err := touch(size / threads)
			errs <- err
		}()
	}
	for range threads {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Println("full")
	select {}
}
