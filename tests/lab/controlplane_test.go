package lab

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
)

func TestKubeconfig(t *testing.T) {
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	p := &ControlPlane{Port: 6443, authority: a}
	files, err := p.join("one")
	if err != nil {
		t.Fatal(err)
	}
	if files[0].Path != kubeconfigPath || files[0].Mode != 0o600 || !strings.Contains(string(files[1].Data), kubeconfigPath) {
		t.Errorf("files %+v", files)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(files[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://10.0.2.2:6443" || !bytes.Equal(config.CAData, a.pem) || len(config.CertData) == 0 || len(config.KeyData) == 0 {
		t.Errorf("config %+v", config)
	}
}

// TestControlPlaneStopsInEachState: Stop also works while the API server is interrupted, hangs, or
// was ended while it hung.
func TestControlPlaneStopsInEachState(t *testing.T) {
	for name, outage := range map[string][]func(*ControlPlane) error{
		"running":             nil,
		"interrupted":         {(*ControlPlane).Interrupt},
		"interrupted twice":   {(*ControlPlane).Interrupt, (*ControlPlane).Interrupt},
		"hanging":             {(*ControlPlane).hang},
		"hanging twice":       {(*ControlPlane).hang, (*ControlPlane).hang},
		"hanging, then ended": {(*ControlPlane).hang, (*ControlPlane).Interrupt},
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
			if err := p.hang(); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("one that has ended hangs: error %v", err)
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

func TestControlPlaneIsNotForDetachedNodes(t *testing.T) {
	_, err := Options{ControlPlane: &ControlPlane{}, Detached: true}.withDefaults()
	if err == nil || !strings.Contains(err.Error(), "leave out one of them") {
		t.Errorf("error %v", err)
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
