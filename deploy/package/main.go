// Command package builds what is released, for one architecture: a package for Debian and its
// derivatives (deb), one for RPM distributions (rpm), a tar file with the list of what the programs
// contain (archive), that list alone (sbom), and a system extension for hosts with a read-only /usr
// (sysext). It reads the installed files on standard input, as "make list" prints them:
//
//	make -s list | go -C deploy/package run . -arch amd64 -version v0.1.0
//
// The same input gives the same bytes: times are SOURCE_DATE_EPOCH.
//
// The packages are built by nfpm. 2.45.0 is the newest version whose modules all have a source that
// the module proxy serves: 2.46 requires modules of go.digitalxero.dev.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

// request holds what is built.
type request struct {
	// name names the archive and the list of modules.
	name    string
	version version
	// arch is a GOARCH.
	arch string
	// build counts packages of the same version, from 1.
	build      string
	maintainer string
	// time is the time of all files.
	time time.Time
	// root is the folder of the repository.
	root string
	// files lists the installed files.
	files []file
}

func run(args []string, list io.Reader) error {
	flags := flag.NewFlagSet("package", flag.ContinueOnError)
	whole := flags.String("name", name, "what the list of modules is about")
	described := flags.String("version", "", "what git describe prints")
	arch := flags.String("arch", "amd64", "architecture, as Go names it")
	build := flags.String("build", "1", "number of the package in its version")
	maintainer := flags.String("maintainer", "", "name and address in the packages")
	root := flags.String("root", "../..", "folder of the repository")
	out := flags.String("out", "../../bin/packages", "folder to write to")
	formats := flags.String("formats", "deb,rpm", "what to write: a list of deb, rpm, archive, sbom and sysext")
	if err := flags.Parse(args); err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: want the time of the release in seconds since 1970: %w", err)
	}
	r := request{
		name: *whole, arch: *arch, build: *build, maintainer: *maintainer, root: *root, time: time.Unix(seconds, 0).UTC(),
	}
	if r.version, err = parseVersion(*described, r.time); err != nil {
		return err
	}
	if r.files, err = readList(list, r.root); err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "node-partition-package")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, kind := range strings.Split(*formats, ",") {
		if err := r.write(kind, work, *out); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// write writes one kind of what is released into the folder out. What is made for it alone is
// written into work.
func (r request) write(kind, work, out string) error {
	switch kind {
	case deb.name:
		return deb.write(r, work, out)
	case rpm.name:
		return rpm.write(r, work, out)
	case "archive":
		if err := writeArchive(r, out); err != nil {
			return err
		}
		if err := writeSBOM(r, out); err != nil {
			return fmt.Errorf("SBOM: %w", err)
		}
		return nil
	case "sbom":
		return writeSBOM(r, out)
	case "sysext":
		return writeSysext(r, work, out)
	}
	return errors.New("this format is not known: want deb, rpm, archive, sbom or sysext")
}
