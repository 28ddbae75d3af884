package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a file or a folder of the image.
type entry struct {
	// path is absolute.
	path   string
	mode   os.FileMode
	folder bool
	// source is the file on this machine.
	source string
}

// readList reads lines of a mode, a source below root and a path in the image. It adds the folders.
func readList(file, root string) ([]entry, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var entries []entry
	folders := map[string]bool{"/": true}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s: %q: want a mode, a source and a path", file, line)
		}
		mode, err := strconv.ParseUint(fields[0], 8, 12)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: mode: %w", file, line, err)
		}
		e := entry{path: fields[2], mode: os.FileMode(mode), source: fields[1]}
		if !path.IsAbs(e.path) || path.Clean(e.path) != e.path {
			return nil, fmt.Errorf("%s: %q: want an absolute path", file, line)
		}
		if !filepath.IsAbs(e.source) {
			e.source = filepath.Join(root, e.source)
		}
		entries = append(entries, e)
		for above := path.Dir(e.path); !folders[above]; above = path.Dir(above) {
			folders[above] = true
			entries = append(entries, entry{path: above, mode: 0o755, folder: true})
		}
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: has no files; want those that make list prints", file)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	for i := range entries[1:] {
		if entries[i].path == entries[i+1].path {
			return nil, fmt.Errorf("%s: two files have the path %s", file, entries[i].path)
		}
	}
	return entries, nil
}

// writeTar returns the entries as a tar file. Everything belongs to root and has the same time.
func writeTar(entries []entry, arch string, created time.Time) ([]byte, error) {
	var data bytes.Buffer
	archive := tar.NewWriter(&data)
	for _, e := range entries {
		header := &tar.Header{
			Name: strings.TrimPrefix(e.path, "/"), Mode: int64(e.mode), ModTime: created,
			Format: tar.FormatPAX, Typeflag: tar.TypeReg,
		}
		var content []byte
		if e.folder {
			header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		} else {
			var err error
			if content, err = os.ReadFile(e.source); err != nil {
				return nil, err
			}
			if err := checkProgram(content, arch); err != nil {
				return nil, fmt.Errorf("%s: %w", e.source, err)
			}
			header.Size = int64(len(content))
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}

// machines names what the programs of an architecture are compiled for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram returns an error for a program that does not run in an image that has nothing else,
// or on another architecture. Any other content is right.
func checkProgram(content []byte, arch string) error {
	if !bytes.HasPrefix(content, []byte(elf.ELFMAG)) {
		return nil
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return err
	}
	if program.Machine != machines[arch] {
		return fmt.Errorf("is for %v; want a program for %s", program.Machine, arch)
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("needs a dynamic linker, and the image has none: build it with CGO_ENABLED=0")
		}
	}
	return nil
}
