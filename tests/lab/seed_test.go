package lab

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type entry struct {
	header  tar.Header
	content string
}

// readTar returns the entries of a tar, in order.
func readTar(t *testing.T, r io.Reader) []entry {
	t.Helper()
	var all []entry
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry{*h, string(data)})
	}
}

func TestWriteTar(t *testing.T) {
	host := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(host, []byte("binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := []File{
		{Path: "/etc/plain", Data: []byte("text")},
		{Path: "/etc/script", Data: []byte("#!/bin/sh\n")},
		{Path: "/etc/secret", Data: []byte("s"), Mode: 0o600},
		{Path: "/usr/bin/copied", Source: host},
		{Path: "/usr/bin/set", Source: host, Mode: fs.ModeSetuid | 0o755},
		{Path: "/etc/link", Link: "/dev/null"},
		{Path: "/tmp", Mode: fs.ModeDir | 0o1777},
		{Path: "/etc/folder/", Mode: fs.ModeDir},
	}
	var first, second bytes.Buffer
	if err := writeTar(&first, files); err != nil {
		t.Fatal(err)
	}
	if err := writeTar(&second, files); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same files give different bytes")
	}
	// A disk has whole sectors.
	if first.Len()%512 != 0 {
		t.Errorf("%d bytes are not whole sectors", first.Len())
	}
	want := []struct {
		name    string
		kind    byte
		mode    int64
		content string
		link    string
	}{
		{"etc/plain", tar.TypeReg, 0o644, "text", ""},
		{"etc/script", tar.TypeReg, 0o755, "#!/bin/sh\n", ""},
		{"etc/secret", tar.TypeReg, 0o600, "s", ""},
		{"usr/bin/copied", tar.TypeReg, 0o755, "binary", ""},
		{"usr/bin/set", tar.TypeReg, 0o4755, "binary", ""},
		{"etc/link", tar.TypeSymlink, 0o777, "", "/dev/null"},
		{"tmp/", tar.TypeDir, 0o1777, "", ""},
		{"etc/folder/", tar.TypeDir, 0o755, "", ""},
	}
	got := readTar(t, &first)
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i, w := range want {
		h := got[i].header
		if h.Name != w.name || h.Typeflag != w.kind || h.Mode != w.mode || h.Linkname != w.link || got[i].content != w.content {
			t.Errorf("entry %d: %q type %q mode %o link %q content %q, want %+v", i, h.Name, h.Typeflag, h.Mode, h.Linkname, got[i].content, w)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() != 0 {
			t.Errorf("%s: owner %d:%d %q, time %s", h.Name, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
	}
}

func TestWriteTarErrors(t *testing.T) {
	for name, f := range map[string]File{
		"relative":  {Path: "etc/x"},
		"no source": {Path: "/etc/x", Source: "/does/not/exist"},
		"folder":    {Path: "/etc/x", Source: "/"},
	} {
		if err := writeTar(io.Discard, []File{f}); err == nil || !strings.Contains(err.Error(), f.Path) {
			t.Errorf("%s: error %v does not name the file", name, err)
		}
	}
}

func TestMergeFiles(t *testing.T) {
	got := mergeFiles(
		[]File{{Path: "/a", Data: []byte("1")}, {Path: "/b"}},
		[]File{{Path: "//a", Data: []byte("2")}, {Path: "/c/"}},
	)
	names := make([]string, 0, len(got))
	for _, f := range got {
		names = append(names, f.Path+string(f.Data))
	}
	if strings.Join(names, " ") != "/b /a2 /c" {
		t.Errorf("merged: %v", names)
	}
}

func TestNodeFiles(t *testing.T) {
	k := keys{dir: t.TempDir()}
	own := File{Path: KubeletConfigPath, Data: []byte("own")}
	for name, tc := range map[string]struct {
		options Options
		present []string
		absent  []string
	}{
		"default":  {Options{Name: "n"}, []string{KubeletConfigPath, ManifestDir + "/user-app.yaml", "/etc/hostname"}, []string{"/etc/fstab"}},
		"no pods":  {Options{Name: "n", NoPods: true}, []string{KubeletConfigPath}, []string{ManifestDir + "/user-app.yaml"}},
		"late var": {Options{Name: "n", LateVar: true}, []string{"/etc/fstab"}, nil},
		"own":      {Options{Name: "n", Files: []File{own}}, []string{KubeletConfigPath}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := nodeFiles(tc.options, k)
			if err != nil {
				t.Fatal(err)
			}
			byPath := map[string]File{}
			for _, f := range files {
				byPath[f.Path] = f
			}
			for _, p := range tc.present {
				if _, ok := byPath[p]; !ok {
					t.Errorf("%s is missing", p)
				}
			}
			for _, p := range tc.absent {
				if _, ok := byPath[p]; ok {
					t.Errorf("%s is there", p)
				}
			}
			// A truncated seed must not look complete.
			if last := files[len(files)-1].Path; last != seededPath {
				t.Errorf("the last file is %s", last)
			}
			if name == "own" && string(byPath[KubeletConfigPath].Data) != "own" {
				t.Error("the default replaced the option's file")
			}
		})
	}
}

func TestSeedMarkIsTheOneTheInitrdLooksFor(t *testing.T) {
	init, err := guest.ReadFile("guest/initrd/init")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(init), "/newroot"+seededPath) {
		t.Errorf("guest/initrd/init does not look for %s", seededPath)
	}
	bake, err := guest.ReadFile("guest/common/usr/lib/lab/bake.sh")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(bake), bakedMark) {
		t.Errorf("bake.sh does not print %q", bakedMark)
	}
}

func TestKubeletConfig(t *testing.T) {
	f, err := KubeletConfig("systemPartition:\n  memoryLimit: 1Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	if f.Path != KubeletConfigPath || !strings.HasSuffix(string(f.Data), "\nsystemPartition:\n  memoryLimit: 1Gi\n") {
		t.Errorf("%s:\n%s", f.Path, f.Data)
	}
}
