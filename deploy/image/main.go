// Command image builds the image node-partition-installer and packs the chart that names it. The
// image has static programs on nothing, for each architecture, as an OCI layout on disk. It reads
// one list of files for each architecture, in the form of "make list":
//
//	image -version v0.1.0 -files amd64=LIST -files arm64=LIST -layout bin/image -chart bin/chart
//
// The same input gives the same bytes: times are SOURCE_DATE_EPOCH. It prints the digest of the
// image.
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
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// name is the name of the image.
const name = "node-partition-installer"

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	described := flags.String("version", "", "what git describe prints")
	root := flags.String("root", "../..", "folder of the repository")
	lists := map[string]string{}
	flags.Func("files", "ARCH=LIST: a list of modes, sources and paths for an architecture, as Go names it", func(value string) error {
		arch, list, found := strings.Cut(value, "=")
		if !found {
			return errors.New("want ARCH=LIST")
		}
		lists[arch] = list
		return nil
	})
	layoutDir := flags.String("layout", "", "folder to write the image to, which is replaced")
	archive := flags.String("archive", "", "tar file to write the same to")
	chartOut := flags.String("chart", "", "folder to write the chart to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: want the time of the release in seconds since 1970: %w", err)
	}
	created := time.Unix(seconds, 0).UTC()
	if len(lists) == 0 || *layoutDir == "" {
		return errors.New("want -files=ARCH=LIST for each architecture, and -layout=FOLDER")
	}
	image, err := buildIndex(lists, *root, *described, created)
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	if err := writeLayout(*layoutDir, image, *described); err != nil {
		return fmt.Errorf("%s: %w", *layoutDir, err)
	}
	if *archive != "" {
		if err := writeArchive(*archive, *layoutDir, created); err != nil {
			return fmt.Errorf("%s: %w", *archive, err)
		}
	}
	if *chartOut != "" {
		if err := writeChart(*chartOut, *root, *described, digest.String(), created); err != nil {
			return fmt.Errorf("chart: %w", err)
		}
	}
	_, err = fmt.Fprintln(out, digest)
	return err
}
