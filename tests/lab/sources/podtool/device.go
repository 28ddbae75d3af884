package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
)

// devicePeriod is between two tries.
const devicePeriod = 200 * time.Millisecond

// device says again and again whether a device may be made and opened, so that a log shows when that changes.
func device(args []string) error {
	path := args[0]
	kind, ok := map[string]uint32{"c": syscall.S_IFCHR, "b": syscall.S_IFBLK}[args[1]]
	if !ok {
		return fmt.Errorf("device type %q: want c or b", args[1])
	}
	major, err := strconv.ParseUint(args[2], 10, 12)
	if err != nil {
		return fmt.Errorf("device major number: %w", err)
	}
	minor, err := strconv.ParseUint(args[3], 10, 20)
	if err != nil {
		return fmt.Errorf("device minor number: %w", err)
	}
	ready()
	for {
		if err := tryDevice(path, kind, mkdev(major, minor)); err != nil {
			fmt.Println("denied: " + errnoName(err))
		} else {
			fmt.Println("allowed")
		}
		<-time.After(devicePeriod)
	}
}

func tryDevice(path string, kind uint32, dev int) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syscall.Mknod(path, kind|0o600, dev); err != nil {
		return err
	}
	// Opening a terminal or a pipe may wait for the other end.
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

// mkdev packs a device's numbers as the kernel takes them (new_encode_dev).
func mkdev(major, minor uint64) int { return int(minor&0xff | major<<8 | minor&^0xff<<12) }

// errnoName returns the name of an error that the device filter or a missing driver gives, else its text.
func errnoName(err error) string {
	for errno, name := range map[syscall.Errno]string{
		syscall.EPERM: "EPERM", syscall.EACCES: "EACCES", syscall.ENXIO: "ENXIO", syscall.ENODEV: "ENODEV", syscall.EBUSY: "EBUSY",
	} {
		if errors.Is(err, errno) {
			return name
		}
	}
	return err.Error()
}
