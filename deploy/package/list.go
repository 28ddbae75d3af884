package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// file is an installed file.
type file struct {
	mode os.FileMode
	// source is the file on this machine, and path the one on a node.
	source, path string
}

// readList reads lines of a mode, a source below root and a path.
func readList(list io.Reader, root string) ([]file, error) {
	var files []file
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			return nil, fmt.Errorf("%q: want a mode, a source and a path", lines.Text())
		}
		mode, err := strconv.ParseUint(fields[0], 8, 12)
		if err != nil {
			return nil, fmt.Errorf("%q: mode: %w", lines.Text(), err)
		}
		source := fields[1]
		if !filepath.IsAbs(source) {
			source = filepath.Join(root, source)
		}
		files = append(files, file{os.FileMode(mode), source, fields[2]})
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no files on standard input; want those that make list prints")
	}
	return files, lines.Err()
}
