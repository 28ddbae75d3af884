package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
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
	if files[0].Path != KubeconfigPath || files[0].Mode != 0o600 || !strings.Contains(string(files[1].Data), KubeconfigPath) {
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

func TestControlPlaneIsNotForDetachedNodes(t *testing.T) {
	_, err := Options{ControlPlane: &ControlPlane{}, Detached: true}.withDefaults()
	if err == nil || !strings.Contains(err.Error(), "leave out one of them") {
		t.Errorf("error %v", err)
	}
}

func TestDeadControlPlanesGo(t *testing.T) {
	c := Cache{Dir: t.TempDir()}
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

// childControlPlane makes TestControlPlaneChild start one.
const childControlPlane = "LAB_TEST_CHILD_CONTROL_PLANE"

// TestControlPlaneChild is not a test: TestControlPlaneEndsWithItsTest runs it in another process.
func TestControlPlaneChild(t *testing.T) {
	if os.Getenv(childControlPlane) == "" {
		return
	}
	p, err := StartControlPlane(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("started in", p.Dir)
	select {} // until the parent ends us
}

// TestControlPlaneEndsWithItsTest: when the process of a test is killed, the programs end with it.
func TestControlPlaneEndsWithItsTest(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds an API server")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestControlPlaneChild$")
	cmd.Env = append(os.Environ(), childControlPlane+"=1")
	var output lockedBuffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		ended <- err
		cancel(fmt.Errorf("the child has ended: %w", err))
	}()
	err := waitFor(ctx, "a control plane", pollInterval, func(context.Context) (bool, string, error) {
		return strings.Contains(output.String(), "started in "), output.String(), nil
	})
	_, after, _ := strings.Cut(output.String(), "started in ")
	dir := strings.TrimSpace(after)
	before, findErr := programsIn(dir)
	killErr := cmd.Process.Kill()
	waitErr := <-ended
	if err := errors.Join(err, findErr, killErr); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(before); waitErr == nil || !slices.Equal(before, []string{"etcd", "kube-apiserver"}) {
		t.Errorf("ended with %v; programs in %s: %v", waitErr, dir, before)
	}
	err = waitFor(t.Context(), "the end of its programs", pollInterval, func(context.Context) (bool, string, error) {
		left, err := programsIn(dir)
		return len(left) == 0, strings.Join(left, " "), err
	})
	if err != nil {
		t.Error(err)
	}
	cache, err := DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.removeDeadControlPlanes(); err != nil || exists(dir) {
		t.Errorf("%s is there: %v, %v", dir, exists(dir), err)
	}
}

// programsIn returns the names of the processes that work in a folder.
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
