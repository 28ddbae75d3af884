package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// fill takes memory that outlives it where the folder is in memory. Started again it ends, and leaves what is there.
func fill(args []string) error {
	sizes, err := parseSizes(args[1:])
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(args[0], "podtool"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	ready()
	return steadily(0, sizes[0], sizes[1], func(more int) error { return write(file, more) })
}

func write(file *os.File, size int) error {
	chunk := make([]byte, min(size, 1<<20))
	for left := size; left > 0; left -= len(chunk) {
		if _, err := file.Write(chunk[:min(left, len(chunk))]); err != nil {
			return err
		}
	}
	return nil
}

// open takes slabs that count as ones which the kernel can take back, and cannot: inodes and names of files that are open.
func open(args []string) error {
	sizes, err := parseSizes(args[1:])
	if err != nil {
		return err
	}
	ready()
	opened := 0
	return steadily(0, sizes[0], sizes[1], func(more int) error {
		for range more {
			// As long as a name may be: it is half of what a file takes.
			name := filepath.Join(args[0], fmt.Sprintf("%0255d", opened))
			if _, err := syscall.Open(name, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600); err != nil {
				return &os.PathError{Op: "open", Path: name, Err: err}
			}
			opened++
		}
		return nil
	})
}

// read is ready when it has read the file once. The file was never written: its pages are zero, and in the page cache as others are.
func read(args []string) error {
	sizes, err := parseSizes(args[1:])
	if err != nil {
		return err
	}
	rate, size := sizes[0], sizes[1]
	file, err := os.Create(filepath.Join(args[0], "podtool"))
	if err != nil {
		return err
	}
	if err := file.Truncate(int64(size)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, file); err != nil {
		return err
	}
	ready()
	chunk := make([]byte, min(size, 1<<20))
	for began, done := time.Now(), 0; ; {
		n, err := file.Read(chunk)
		if errors.Is(err, io.EOF) {
			_, err = file.Seek(0, io.SeekStart)
		}
		if err != nil {
			return err
		}
		done += n
		<-time.After(time.Until(began.Add(time.Duration(float64(done) / float64(rate) * float64(time.Second)))))
	}
}
