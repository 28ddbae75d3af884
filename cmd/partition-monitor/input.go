package main

import (
	"io"
	"os"
	"path/filepath"
)

const (
	// maxSection bounds the read of a section, in bytes. try and validate report a section that is too
	// large: their own bound is lower.
	maxSection = 1 << 20
	// maxManifest bounds the read of a manifest, in bytes. render.Pod refuses a manifest of that
	// length.
	maxManifest = 11 << 20
)

// readInput reads a file, or stdin if file is "-", up to a bound in bytes. name is the path or
// "standard input", for messages.
func readInput(stdin io.Reader, file string, most int64) (name string, data []byte, err error) {
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, most))
		return "standard input", data, err
	}
	if name, err = filepath.Abs(file); err != nil {
		return "", nil, err
	}
	opened, err := os.Open(name)
	if err != nil {
		return "", nil, err
	}
	defer opened.Close()
	data, err = io.ReadAll(io.LimitReader(opened, most))
	return name, data, err
}
