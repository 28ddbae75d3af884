package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestWriteImages(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("static"), 0o644); err != nil {
		t.Fatal(err)
	}
	archives := make([][]byte, 0, 2)
	for _, sub := range []string{"one", "two"} {
		if err := writeImages(filepath.Join(dir, sub), imagePrograms{pause: program, podtool: program, busybox: program}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, sub, "busybox.tar"))
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, data)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same files give different images")
	}
	for file, tag := range map[string]string{"pause.tar": PauseImage, "busybox.tar": BusyboxImage, "podtool.tar": PodtoolImage} {
		ref, err := name.NewTag(tag)
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(filepath.Join(dir, "one", file), &ref)
		if err != nil {
			t.Fatalf("%s: %v", tag, err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.OS != "linux" || config.Architecture != "amd64" || len(config.RootFS.DiffIDs) != 1 {
			t.Errorf("%s: %+v", tag, config)
		}
		layers, err := image.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%s: %d layers, %v", tag, len(layers), err)
		}
		r, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]entry{}
		for _, e := range readTar(t, r) {
			found[e.header.Name] = e
		}
		switch tag {
		case PauseImage:
			if config.Config.Entrypoint[0] != "/pause" || found["pause"].header.Mode != 0o755 {
				t.Errorf("%s: %v, %v", tag, config.Config, found["pause"].header)
			}
		case PodtoolImage:
			if config.Config.Entrypoint[0] != "/podtool" || found["podtool"].header.Mode != 0o755 {
				t.Errorf("%s: %v, %v", tag, config.Config, found["podtool"].header)
			}
		case BusyboxImage:
			if found["bin/sh"].header.Linkname != "busybox" || found["bin/busybox"].content != "static" || found["tmp/"].header.Mode != 0o1777 {
				t.Errorf("%s: %v", tag, found)
			}
		}
	}
}

func TestWriteImagesOfAnotherArchitecture(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("static"), 0o644); err != nil {
		t.Fatal(err)
	}
	programs := imagePrograms{pause: program, podtool: program, busybox: program, arch: arm64}
	if err := writeImages(dir, programs); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"pause.tar", "podtool.tar", "busybox.tar"} {
		image, err := tarball.ImageFromPath(filepath.Join(dir, file), nil)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if config, err := image.ConfigFile(); err != nil || config.Architecture != "arm64" {
			t.Errorf("%s: %+v, %v", file, config, err)
		}
	}
}
