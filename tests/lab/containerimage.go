package lab

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	// PauseImage is the sandbox image of every node.
	PauseImage = "lab.local/pause:1"
	// BusyboxImage is the image for pods. /bin has a link for each of busybox's commands that pods
	// use.
	BusyboxImage = "lab.local/busybox:1"
	// PodtoolImage is an image for pods that do one thing a test can observe: sources/podtool/main.go
	// has the list.
	PodtoolImage = "lab.local/podtool:1"
)

// busyboxCommands lists the commands that the busybox image has as programs of their own. Its shell
// has all the others, too, because Debian's busybox-static prefers its own applets.
func busyboxCommands() []string {
	return []string{
		"[", "ash", "awk", "cat", "chmod", "cp", "cut", "date", "dd", "echo", "env", "expr", "false", "find",
		"free", "grep", "head", "hostname", "httpd", "id", "ip", "kill", "ls", "mkdir", "mknod", "mount", "mv",
		"nc", "nice", "nproc", "nslookup", "od", "pgrep", "ping", "printf", "ps", "pwd", "rm", "sed", "seq",
		"sh", "sleep", "sort", "stat", "stress", "stty", "sync", "tail", "tar", "test", "time", "timeout",
		"top", "touch", "true", "uname", "uptime", "usleep", "vi", "wc", "wget", "xargs", "yes",
	}
}

// writeImage writes a docker-archive for an architecture, with one layer made of files. The same
// files give the same bytes.
func writeImage(path, tag, arch string, config v1.Config, files []File) error {
	var layer bytes.Buffer
	if err := writeTar(&layer, files); err != nil {
		return fmt.Errorf("image %s: %w", tag, err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	if err != nil {
		return fmt.Errorf("image %s: %w", tag, err)
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return fmt.Errorf("image %s: %w", tag, err)
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: platformOf(arch).goarch,
		OS:           "linux",
		Config:       config,
		RootFS:       v1.RootFS{Type: "layers", DiffIDs: diffIDs(image)},
	})
	if err != nil {
		return fmt.Errorf("image %s: %w", tag, err)
	}
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("image %s: %w", tag, err)
	}
	if err := tarball.WriteToFile(path, ref, image); err != nil {
		return fmt.Errorf("image %s: %w", tag, err)
	}
	return nil
}

func diffIDs(image v1.Image) []v1.Hash {
	config, err := image.ConfigFile()
	if err != nil {
		return nil
	}
	return config.RootFS.DiffIDs
}

// imagePrograms holds the programs of the images of every node, and their architecture. Busybox is
// the node's own, Debian's static one.
type imagePrograms struct{ pause, podtool, busybox, arch string }

// writeImages writes the images of every node into dir, lab.local/NAME:1 as NAME.tar.
func writeImages(dir string, programs imagePrograms) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("container images: %w", err)
	}
	err := writeImage(filepath.Join(dir, "pause.tar"), PauseImage, programs.arch,
		v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"},
		[]File{{Path: "/pause", Mode: 0o755, Source: programs.pause}})
	if err != nil {
		return err
	}
	err = writeImage(filepath.Join(dir, "podtool.tar"), PodtoolImage, programs.arch,
		v1.Config{Entrypoint: []string{"/podtool"}},
		[]File{
			{Path: "/podtool", Mode: 0o755, Source: programs.podtool},
			{Path: "/tmp", Mode: os.ModeDir | 0o1777},
		})
	if err != nil {
		return err
	}
	files := []File{
		{Path: "/bin/busybox", Mode: 0o755, Source: programs.busybox},
		{
			Path: "/etc/passwd",
			Mode: 0o644,
			Data: []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
		},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\nnogroup:x:65534:\n")},
		{Path: "/tmp", Mode: os.ModeDir | 0o1777},
	}
	for _, c := range busyboxCommands() {
		files = append(files, File{Path: "/bin/" + c, Link: "busybox"})
	}
	return writeImage(filepath.Join(dir, "busybox.tar"), BusyboxImage, programs.arch,
		v1.Config{Cmd: []string{"/bin/sh"}, Env: []string{"PATH=/bin"}}, files)
}
