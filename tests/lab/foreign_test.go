package lab

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// member is a member of an archive of cpio.
type member struct {
	mode, owner, ino int64
	content          string
}

// readCpio returns the members of an archive by name, and their names in order.
func readCpio(t *testing.T, data []byte) (members map[string]member, names []string) {
	t.Helper()
	members = map[string]member{}
	at := 0
	next := func(size int) string {
		t.Helper()
		if at+size > len(data) {
			t.Fatalf("the archive has %d bytes, and its members have more", len(data))
		}
		text := string(data[at : at+size])
		at += size
		return text
	}
	field := func() int64 {
		t.Helper()
		number, err := strconv.ParseInt(next(8), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return number
	}
	align := func() { next((4 - at%4) % 4) }
	for {
		if magic := next(6); magic != "070701" {
			t.Fatalf("a member begins with %q", magic)
		}
		var fields [13]int64
		for i := range fields {
			fields[i] = field()
		}
		name := next(int(fields[11]))
		align()
		content := next(int(fields[6]))
		align()
		if !strings.HasSuffix(name, "\x00") {
			t.Fatalf("name %q", name)
		}
		name = strings.TrimSuffix(name, "\x00")
		if name == cpioEnd {
			return members, names
		}
		members[name] = member{fields[1], fields[2], fields[0], content}
		names = append(names, name)
	}
}

// unpackedDebian writes a tar as mmdebstrap does.
func unpackedDebian(t *testing.T, headers ...tar.Header) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "unpacked.tar")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(out)
	for _, h := range headers {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content = "content of " + h.Name
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWriteInstaller: the machine that installs Debian has the unpacked packages, its first process
// and the scripts of the initial RAM disk of nodes.
func TestWriteInstaller(t *testing.T) {
	unpacked := unpackedDebian(
		t,
		tar.Header{Name: "./dev/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./dev/null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 3},
		tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin", Mode: 0o777},
		tar.Header{Name: "./boot/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./boot/vmlinuz-6.12-cloud-arm64", Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: "./tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
		tar.Header{Name: "./usr/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./usr/bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./usr/bin/perl", Typeflag: tar.TypeReg, Mode: 0o755},
		tar.Header{Name: "./usr/bin/perl5", Typeflag: tar.TypeLink, Linkname: "./usr/bin/perl", Mode: 0o755},
		tar.Header{Name: "./usr/bin/su", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 7},
		tar.Header{Name: "./usr/share/doc/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./usr/share/doc/bash/copyright", Typeflag: tar.TypeReg, Mode: 0o644},
	)
	img := image{dir: t.TempDir(), arch: arm64}
	if err := writeInstaller(unpacked, img); err != nil {
		t.Fatal(err)
	}
	if kernel, err := os.ReadFile(img.kernel()); err != nil || string(kernel) != "content of ./boot/vmlinuz-6.12-cloud-arm64" {
		t.Errorf("kernel %q, %v", kernel, err)
	}
	data, err := os.ReadFile(img.initrd())
	if err != nil {
		t.Fatal(err)
	}
	members, names := readCpio(t, data)
	for name, want := range map[string]member{
		".":              {mode: cpioFolder | 0o755},
		"dev":            {mode: cpioFolder | 0o755},
		"tmp":            {mode: cpioFolder | 0o1777},
		"bin":            {mode: cpioLink | 0o777, content: "usr/bin"},
		"usr/bin/perl":   {mode: cpioFile | 0o755, content: "content of ./usr/bin/perl"},
		"usr/bin/perl5":  {mode: cpioLink | 0o755, content: "/usr/bin/perl"},
		"usr/bin/su":     {mode: cpioFile | 0o4755, owner: 7, content: "content of ./usr/bin/su"},
		"usr/share/doc":  {mode: cpioFolder | 0o755},
		"tmp/lab/initrd": {mode: cpioFolder | 0o755},
	} {
		got, ok := members[name]
		got.ino = 0
		if !ok || got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for _, name := range []string{"dev/null", "usr/share/doc/bash/copyright"} {
		if _, ok := members[name]; ok {
			t.Errorf("%s is there", name)
		}
	}
	for name, source := range map[string]string{
		"init": "guest/install/init", "tmp/lab/initrd/init": "guest/initrd/init", "tmp/lab/initrd/build.sh": "guest/initrd/build.sh",
	} {
		script, err := guest.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if got := members[name]; got.content != string(script) || got.mode != cpioFile|0o755 {
			t.Errorf("%s: mode %o: %s", name, got.mode, got.content)
		}
	}
	inodes := map[int64]bool{}
	for _, m := range members {
		inodes[m.ino] = true
	}
	if len(inodes) != len(names) || len(names) != len(members) {
		t.Errorf("%d members have %d names and %d inodes", len(names), len(members), len(inodes))
	}
}

func TestWriteInstallerWithoutKernel(t *testing.T) {
	unpacked := unpackedDebian(t, tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755})
	err := writeInstaller(unpacked, image{dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "no file /boot/vmlinuz-*") {
		t.Errorf("error %v", err)
	}
}

// TestAddTarStopsAtATornTar: half a tar does not become an archive.
func TestAddTarStopsAtATornTar(t *testing.T) {
	data, err := os.ReadFile(unpackedDebian(t, tar.Header{Name: "./file", Typeflag: tar.TypeReg, Mode: 0o644}))
	if err != nil {
		t.Fatal(err)
	}
	archive := &cpioWriter{w: io.Discard}
	if err := archive.addTar(bytes.NewReader(data[:515]), func(string) bool { return false }); err == nil {
		t.Error("no error")
	}
}

// TestInstallMark: the script prints the line that the host looks for.
func TestInstallMark(t *testing.T) {
	script, err := guest.ReadFile("guest/install/init")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), `echo "`+installedMark+`"`) {
		t.Errorf("it does not print %q", installedMark)
	}
}
