package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// stem returns the name of the archive and of the SBOM, without an extension.
func stem(r request) string {
	return r.name + "-" + strings.ReplaceAll(r.version.String(), "~", "-") + "-linux-" + r.arch
}

// writeArchive writes the installed files as a tar file that is unpacked in the root of a machine,
// without its first folder:
//
//	tar -xzf node-partition-0.1.0-linux-amd64.tar.gz --strip-components=1 -C /
func writeArchive(r request, out string) error {
	var data bytes.Buffer
	compressor, err := gzip.NewWriterLevel(&data, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressor)
	all := slices.SortedFunc(slices.Values(r.files), func(a, b file) int { return cmp.Compare(a.path, b.path) })
	for _, f := range all {
		content, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		err = archive.WriteHeader(&tar.Header{
			Name: stem(r) + f.path, Size: int64(len(content)), Mode: int64(f.mode),
			ModTime: r.time, Uname: "root", Gname: "root", Format: tar.FormatPAX,
		})
		if err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := compressor.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, stem(r)+".tar.gz"), data.Bytes(), 0o644)
}
