package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
)

// machines names what the programs of an architecture are compiled for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkLayer returns an error for a layer without files, or with a program that does not run in the
// image.
func checkLayer(layer []byte, arch string) error {
	archive := tar.NewReader(bytes.NewReader(layer))
	for files := 0; ; files++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) && files > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		if err := checkProgram(content, arch); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

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
