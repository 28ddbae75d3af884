package lab

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// File is a file in a node's root file system before PID 1 starts.
type File struct {
	// Path is its absolute path in the node.
	Path string
	// Mode has the permissions, and fs.ModeDir for a folder. Without permissions a file gets those of
	// Source, else 0644 (0755 if the content begins with "#!"), and a folder 0755.
	Mode fs.FileMode
	// Data is the content, unless Source or Link is set.
	Data []byte
	// Source is a file of the host that is copied.
	Source string
	// Link makes the file a symbolic link with this target.
	Link string
}

// seededPath is the last file of a seed. The initial RAM disk applies a seed only where it is
// missing.
const seededPath = "/etc/lab/seeded"

// mergeFiles joins lists of files. Of two files with the same path it keeps the later one, in its
// own place.
func mergeFiles(lists ...[]File) []File {
	last := map[string]int{}
	var all []File
	for _, list := range lists {
		for _, f := range list {
			f.Path = path.Clean("/" + f.Path)
			last[f.Path] = len(all)
			all = append(all, f)
		}
	}
	var merged []File
	for i, f := range all {
		if last[f.Path] == i {
			merged = append(merged, f)
		}
	}
	return merged
}

// writeTar writes files as a tar, owned by root and without times, so that the same files give the
// same bytes. It leaves parent folders that are not declared to the program that unpacks: in the
// tar they would change the mode of existing folders.
func writeTar(w io.Writer, files []File) error {
	tw := tar.NewWriter(w)
	for _, f := range files {
		if err := writeTarFile(tw, f); err != nil {
			return fmt.Errorf("file %s: %w", f.Path, err)
		}
	}
	return tw.Close()
}

func writeTarFile(tw *tar.Writer, f File) error {
	if !strings.HasPrefix(f.Path, "/") {
		return errors.New("the path is not absolute")
	}
	h := &tar.Header{
		Name:    strings.TrimPrefix(path.Clean(f.Path), "/"),
		Mode:    unixMode(f.Mode),
		ModTime: time.Unix(0, 0),
		Format:  tar.FormatGNU,
	}
	switch {
	case f.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.Link, 0o777
		return tw.WriteHeader(h)
	case f.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		return tw.WriteHeader(h)
	}
	h.Typeflag = tar.TypeReg
	var content io.Reader = bytes.NewReader(f.Data)
	h.Size = int64(len(f.Data))
	if f.Source != "" {
		source, err := os.Open(f.Source)
		if err != nil {
			return err
		}
		defer source.Close()
		info, err := source.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", f.Source)
		}
		content, h.Size = source, info.Size()
		if h.Mode == 0 {
			h.Mode = unixMode(info.Mode())
		}
	}
	if h.Mode == 0 {
		h.Mode = 0o644
		if bytes.HasPrefix(f.Data, []byte("#!")) {
			h.Mode = 0o755
		}
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if n, err := io.CopyN(tw, content, h.Size); err != nil {
		return fmt.Errorf("copied %d of %d bytes: %w", n, h.Size, err)
	}
	return nil
}

// unixMode returns the permission bits in the form of chmod(1). A literal such as 0o1777 has them
// there already. fs.FileMode keeps the upper three elsewhere.
func unixMode(m fs.FileMode) int64 {
	mode := int64(m) & 0o7777
	if m&fs.ModeSetuid != 0 {
		mode |= 0o4000
	}
	if m&fs.ModeSetgid != 0 {
		mode |= 0o2000
	}
	if m&fs.ModeSticky != 0 {
		mode |= 0o1000
	}
	return mode
}
