package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// built makes lists of two architectures with stubs in a new folder, and returns the arguments for
// them.
func built(t *testing.T) (dir string, args []string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	page := write("page.md", []byte("# A page\n"))
	for arch, machine := range machines {
		program := write(arch, stub(t, machine, false))
		list := fmt.Sprintf("0755 %s /payload/usr/bin/partition-monitor\n0644 %s /payload/usr/share/doc/page.md\n", program, page) +
			fmt.Sprintf("0755 %s /partition-installer\n0755 %s /partition-fleet\n", program, program)
		args = append(args, "-files="+arch+"="+write(arch+".list", []byte(list)))
	}
	slices.Sort(args)
	return dir, args
}

// build builds image, archive and chart in a folder, and returns what the program prints.
func build(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(append(args, "-version=v0.1.0-rc.1", "-layout="+filepath.Join(dir, "image"),
		"-archive="+filepath.Join(dir, "image.tar"), "-chart="+filepath.Join(dir, "chart")), &out)
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
			later := time.Now().Add(time.Hour)
			if err := os.Chtimes(filepath.Join(dir, "amd64"), later, later); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(dir, "out/image/blobs/sha256"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "out/image/blobs/sha256/left"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if digests[i], err = build(t, filepath.Join(dir, "out"), args...); err != nil {
			t.Fatal(err)
		}
		all[i] = sums(t, filepath.Join(dir, "out"))
	}
	if !slices.Equal(all[0], all[1]) || digests[0] != digests[1] {
		t.Errorf("%q\nand %q", all[0], all[1])
	}
	// index.json, oci-layout, the index; manifest, configuration and layer of two; archive and chart.
	if len(all[0]) != 11 {
		t.Errorf("%d files: %q", len(all[0]), all[0])
	}
}

// unpacked returns the entries of a tar file as "MODE OWNER TIME NAME", and the content by name.
func unpacked(t *testing.T, from io.Reader) (entries []string, content map[string]string) {
	t.Helper()
	content = map[string]string{}
	for archive := tar.NewReader(from); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return entries, content
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, fmt.Sprintf("%o %d:%d %d %s", header.Mode, header.Uid, header.Gid, header.ModTime.Unix(), header.Name))
		content[header.Name] = string(data)
	}
}

// TestImage: the layout has one image for each architecture, with the files, and with nothing that
// they did not ask for.
func TestImage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", epoch)
	dir, args := built(t)
	digest, err := build(t, dir, args...)
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
	tarred, err := os.Open(filepath.Join(dir, "image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer tarred.Close()
	_, content := unpacked(t, tarred)
	if !strings.Contains(content["index.json"], digest) || content["oci-layout"] == "" || content["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")] == "" {
		t.Errorf("the archive has no layout with %s: %q", digest, content["index.json"])
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
	entries, content := unpacked(t, data)
	want := []string{
		"755 partition-fleet", "755 partition-installer", "755 payload/", "755 payload/usr/", "755 payload/usr/bin/",
		"755 payload/usr/bin/partition-monitor", "755 payload/usr/share/", "755 payload/usr/share/doc/", "644 payload/usr/share/doc/page.md",
	}
	for i, file := range want {
		want[i] = strings.Replace(file, " ", " 0:0 "+epoch+" ", 1)
	}
	if !slices.Equal(entries, want) {
		t.Errorf("%s has %q\nwant %q", arch, entries, want)
	}
	if content["partition-installer"] != string(stub(t, machines[arch], false)) {
		t.Errorf("the program in the image of %s is another one", arch)
	}
}

// TestChart: the packed chart names the image by its digest and has the version of both.
func TestChart(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", epoch)
	dir, args := built(t)
	digest, err := build(t, dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(dir, "chart/node-partition-0.1.0-rc.1.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	entries, content := unpacked(t, data)
	for _, entry := range entries {
		if !strings.HasPrefix(entry, "644 0:0 "+epoch+" node-partition/") || strings.Contains(entry, "charttest") {
			t.Errorf("the chart has %s", entry)
		}
	}
	for file, want := range map[string]string{
		"Chart.yaml": "\nversion: 0.1.0-rc.1\nappVersion: \"v0.1.0-rc.1\"\n", "values.yaml": "\n  digest: " + digest + "\n", "values.schema.json": `"digest"`,
		"templates/_helpers.tpl": "node-partition.image", "templates/NOTES.txt": "kubectl get nodes",
	} {
		if !strings.Contains(content["node-partition/"+file], want) {
			t.Errorf("%s of the chart does not have %q: %q", file, want, content["node-partition/"+file])
		}
	}
}

// TestChartVersion: the versions of git describe are semantic versions of a chart.
func TestChartVersion(t *testing.T) {
	t.Parallel()
	for described, want := range map[string]string{
		"v0.1.0": "0.1.0", "v0.1.0-rc.1": "0.1.0-rc.1", "v0.1.0-5-g3f1fd6b": "0.1.0-5-g3f1fd6b", "v0.1.0-dirty": "0.1.0-dirty",
		"0123456": "0.0.0-g0123456", "3f1fd6b-dirty": "0.0.0-g3f1fd6b-dirty",
		"unknown": "", "": "", "v1": "", "v01.2.3": "", "v1.2.3+meta": "",
	} {
		got, err := chartVersion(described)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", described, got, err, want)
		}
	}
}

// TestRefused: what cannot be an image is not written, and what was there stays.
func TestRefused(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", epoch)
	for _, c := range []struct {
		name string
		// change writes over what built has made.
		file, content string
		args          []string
		want          string
	}{
		{name: "a program of another architecture", file: "arm64", content: string(stub(t, elf.EM_X86_64, false)), want: "is for EM_X86_64; want a program for arm64"},
		{name: "a dynamic program", file: "amd64", content: string(stub(t, elf.EM_X86_64, true)), want: "needs a dynamic linker"},
		{name: "an empty list", file: "amd64.list", want: "has no files"},
		{name: "half a line", file: "amd64.list", content: "0755 a\n", want: "want a mode, a source and a path"},
		{name: "a relative path", file: "amd64.list", content: "0755 a b\n", want: "want an absolute path"},
		{name: "a path that leaves the image", file: "amd64.list", content: "0755 a /../b\n", want: "want an absolute path"},
		{name: "a mode", file: "amd64.list", content: "rwx a /b\n", want: "mode: "},
		{name: "a missing file", file: "amd64.list", content: "0755 /nowhere/a /b\n", want: "/nowhere/a"},
		{name: "one path twice", file: "amd64.list", content: "0755 /dev/null /b\n0755 /dev/null /b\n", want: "two files have the path /b"},
		{name: "an architecture", args: []string{"-files=riscv64=" + os.DevNull}, want: `architecture "riscv64"`},
		{name: "a version", args: []string{"-version=latest"}, want: `version "latest"`},
	} {
		dir, args := built(t)
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		err := run(append(append(args, "-version=v0.1.0", "-layout="+filepath.Join(dir, "image"), "-chart="+filepath.Join(dir, "chart")), c.args...), &out)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
		if found, _ := filepath.Glob(filepath.Join(dir, "chart/*")); len(found) > 0 || out.Len() > 0 {
			t.Errorf("%s: wrote %q, and printed %q", c.name, found, out.String())
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "")
	dir, args := built(t)
	if _, err := build(t, dir, args...); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("without a time: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "image")); err == nil {
		t.Error("an image without a time was written")
	}
}
