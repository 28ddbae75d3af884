package lab

import (
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// TestControlPlaneStopsInEachState: Stop also works while the API server is interrupted.
func TestControlPlaneStopsInEachState(t *testing.T) {
	for name, outage := range map[string][]func(*ControlPlane) error{
		"running":           nil,
		"interrupted":       {(*ControlPlane).Interrupt},
		"interrupted twice": {(*ControlPlane).Interrupt, (*ControlPlane).Interrupt},
	} {
		t.Run(name, func(t *testing.T) {
			dir, unlock, err := cache{Dir: t.TempDir()}.newControlPlane()
			if err != nil {
				t.Fatal(err)
			}
			p := &ControlPlane{Dir: dir, unlock: unlock}
			for _, d := range []**daemon{&p.etcd, &p.apiserver, &p.controllers} {
				if *d, err = startDaemon(dir, "sleep", "infinity"); err != nil {
					t.Fatal(err)
				}
			}
			for _, step := range outage {
				err = errors.Join(err, step(p))
			}
			if err := errors.Join(err, p.Stop()); err != nil {
				t.Error(err)
			}
			if left, err := programsIn(dir); err != nil || len(left) > 0 || exists(dir) {
				t.Errorf("%s is there: %v; programs in it: %v, %v", dir, exists(dir), left, err)
			}
		})
	}
}

// TestReservedPort: no process answers on the port, and its owner can listen on it again and again.
func TestReservedPort(t *testing.T) {
	port, reserved, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer reserved.Close()
	address := loopbackAddress(port)
	for range 2 {
		if c, err := net.Dial("tcp", address); !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatalf("connected: %v; error %v", c, err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Close(), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeadControlPlanesGo(t *testing.T) {
	c := cache{Dir: t.TempDir()}
	dead, unlock, err := c.newControlPlane()
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	alive, unlock, err := c.newControlPlane()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := c.removeDeadControlPlanes(); err != nil {
		t.Fatal(err)
	}
	if exists(dead) || !exists(alive) {
		t.Errorf("dead one there: %v, living one there: %v", exists(dead), exists(alive))
	}
}

// programsIn returns the names of the processes whose working directory is dir.
func programsIn(dir string) ([]string, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range all {
		cwd, cwdErr := p.Cwd()
		path, pathErr := p.Executable()
		if cwdErr == nil && pathErr == nil && cwd == dir {
			names = append(names, filepath.Base(path))
		}
	}
	return names, nil
}
