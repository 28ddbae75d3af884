// Command image builds the image node-partition, static programs on nothing, as an OCI layout on
// disk. It reads a tar file with the content of the image for each architecture:
//
//	image -version v0.1.0 -layer amd64=TAR -layer arm64=TAR -layout bin/image
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
const name = "node-partition"

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	described := flags.String("version", "", "what git describe prints")
	layers := map[string]string{}
	flags.Func("layer", "ARCH=TAR: the content of the image for an architecture, as Go names it", func(value string) error {
		arch, layer, found := strings.Cut(value, "=")
		if !found {
			return errors.New("want ARCH=TAR")
		}
		layers[arch] = layer
		return nil
	})
	layoutDir := flags.String("layout", "", "folder to write the image to, which is replaced")
	if err := flags.Parse(args); err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: want the time of the release in seconds since 1970: %w", err)
	}
	created := time.Unix(seconds, 0).UTC()
	if len(layers) == 0 || *layoutDir == "" {
		return errors.New("want -layer=ARCH=TAR for each architecture, and -layout=FOLDER")
	}
	image, err := buildIndex(layers, *described, created)
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
	_, err = fmt.Fprintln(out, digest)
	return err
}
