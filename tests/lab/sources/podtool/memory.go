package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	var sizes [3]int
	for i, text := range args {
		var err error
		if sizes[i], err = parseSize(text); err != nil {
			return err
		}
	}
	start, rate, limit := sizes[0], sizes[1], sizes[2]
	if _, err := touch(start); err != nil {
		return err
	}
	ready()
	<-time.After(delay)
	began := time.Now()
	for held := start; held < limit; {
		<-time.After(growTick)
		// By the clock, not by the tick: a node under load ticks late.
		wanted := min(limit, start+int(float64(rate)*time.Since(began).Seconds()))
		if wanted <= held {
			continue
		}
		if _, err := touch(wanted - held); err != nil {
			return err
		}
		held = wanted
	}
	fmt.Println("full")
	select {}
}

func files(args []string) error {
	size, err := parseSize(args[1])
	if err != nil {
		return err
	}
	path := filepath.Join(args[0], "podtool")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	chunk := make([]byte, 1<<20)
	for left := size; left > 0; left -= len(chunk) {
		if _, err := file.Write(chunk[:min(left, len(chunk))]); err != nil {
			return err
		}
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, file); err != nil {
		return err
	}
	ready()
	select {}
}
