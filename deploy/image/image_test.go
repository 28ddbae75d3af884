package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const epoch = "1700000000"

// stub returns a program that no machine runs: the header of a file for an architecture. A dynamic
// one names a linker.
func stub(t *testing.T, machine elf.Machine, dynamic bool) []byte {
	t.Helper()
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56, Shentsize: 64,
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	if dynamic {
		header.Phoff, header.Phnum = 64, 1
	}
	var out bytes.Buffer
	if err := binary.Write(&out, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	if dynamic {
		if err := binary.Write(&out, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_INTERP)}); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// tarred returns a tar file with a program.
func tarred(t *testing.T, program []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	err := archive.WriteHeader(&tar.Header{Name: "partition-installer", Mode: 0o755, Size: int64(len(program))})
	if err == nil {
		_, err = archive.Write(program)
	}
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// built makes layers of two architectures with stubs in a new folder, and returns the arguments for
// them.
func built(t *testing.T) (dir string, args []string) {
	t.Helper()
	dir = t.TempDir()
	for arch, machine := range machines {
		file := filepath.Join(dir, arch)
		if err := os.WriteFile(file, tarred(t, stub(t, machine, false)), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-layer="+arch+"="+file)
	}
	return dir, args
}

// build builds the image in a folder, and returns what the program prints.
func build(dir string, args ...string) (string, error) {
	var out bytes.Buffer
	err := run(append(args, "-version=v0.1.0-rc.1", "-layout="+filepath.Join(dir, "image")), &out)
	return strings.TrimSpace(out.String()), err
}

// sums returns the names and digests of the files in a folder.
func sums(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		all = append(all, fmt.Sprintf("%s %x", strings.TrimPrefix(file, dir), sha256.Sum256(data)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTwice: the same files give the same bytes, wherever and whenever they are built, also over
// what an earlier build has left.
func TestTwice(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", epoch)
	var all [2][]string
	var digests [2]string
	for i := range all {
		dir, args := built(t)
		if i == 1 {
			if err := os.MkdirAll(filepath.Join(dir, "out/image/blobs/sha256"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "out/image/blobs/sha256/left"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if digests[i], err = build(filepath.Join(dir, "out"), args...); err != nil {
			t.Fatal(err)
		}
		all[i] = sums(t, filepath.Join(dir, "out"))
	}
	if !slices.Equal(all[0], all[1]) || digests[0] != digests[1] {
		t.Errorf("%q\nand %q", all[0], all[1])
	}
	// index.json, oci-layout, the index; manifest, configuration and layer of two.
	if len(all[0]) != 9 {
		t.Errorf("%d files: %q", len(all[0]), all[0])
	}
}

// TestImage: the layout has one image for each architecture, with its layer and nothing else.
func TestImage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", epoch)
	dir, args := built(t)
	digest, err := build(dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	top, err := layout.ImageIndexFromPath(filepath.Join(dir, "image"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Manifests) != 1 || list.Manifests[0].Digest.String() != digest || list.Manifests[0].Annotations[refAnnotation] != "v0.1.0-rc.1" {
		t.Fatalf("the layout has %+v, want %s alone", list.Manifests, digest)
	}
	index, err := top.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	platforms := make([]string, 0, len(manifest.Manifests))
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, m.Platform.Architecture)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) || manifest.MediaType != types.OCIImageIndex {
		t.Errorf("%s of %q, want %q", manifest.MediaType, platforms, want)
	}
}

func checkImage(t *testing.T, image v1.Image, arch string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if config.Architecture != arch || config.OS != "linux" || fmt.Sprint(config.Created.Unix()) != epoch || c.User != "65532:65532" ||
		len(c.Entrypoint)+len(c.Cmd)+len(c.Env)+len(c.Volumes)+len(c.ExposedPorts) > 0 {
		t.Errorf("configuration of %s: %+v", arch, config)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) != 1 {
		t.Fatalf("%d layers", len(layers))
	}
	if kind, err := layers[0].MediaType(); err != nil || kind != types.OCILayer {
		t.Errorf("layer: %s, %v", kind, err)
	}
	data, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	content, err := io.ReadAll(data)
	if err != nil || !bytes.Equal(content, tarred(t, stub(t, machines[arch], false))) {
		t.Errorf("the image of %s has another layer, %v", arch, err)
	}
}

// TestRefused: what cannot be an image is not written.
func TestRefused(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", epoch)
	large := make([]byte, maxSize) // no byte less when it is compressed
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	for _, c := range []struct {
		name, layer string
		args        []string
		want        string
	}{
		{name: "a program of another architecture", layer: string(tarred(t, stub(t, elf.EM_S390, false))), want: "partition-installer: is for EM_S390; want a program for "},
		{name: "a dynamic program", layer: string(tarred(t, stub(t, elf.EM_X86_64, true))), want: "needs a dynamic linker"},
		{name: "more than nodes are to pull", layer: string(tarred(t, large)), want: "MB compressed; want 40 at most"},
		{name: "no tar file", layer: "a", want: "EOF"},
		{name: "an empty layer", layer: string(make([]byte, 1024)), want: "EOF"},
		{name: "a missing file", args: []string{"-layer=amd64=/nowhere/a"}, want: "/nowhere/a"},
		{name: "an architecture", args: []string{"-layer=riscv64=" + os.DevNull}, want: `architecture "riscv64"`},
	} {
		dir, args := built(t)
		if c.layer != "" {
			if err := os.WriteFile(filepath.Join(dir, "amd64"), []byte(c.layer), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := build(dir, append(args, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
		if _, err := os.Stat(filepath.Join(dir, "image")); err == nil || out != "" {
			t.Errorf("%s: the image was written, and %q printed", c.name, out)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "")
	dir, args := built(t)
	if _, err := build(dir, args...); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("without a time: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "image")); err == nil {
		t.Error("an image without a time was written")
	}
}
