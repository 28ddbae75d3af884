package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// chartName is the name of the chart, and the first folder of its archive.
const chartName = "node-partition"

// commit matches what git describe prints of a tree without a tag.
var commit = regexp.MustCompile(`^[0-9a-f]{7,64}(-dirty)?$`)

// semantic matches a semantic version, in which a number has no leading zero (semver.org, 2.0.0).
var semantic = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

// chartVersion returns the version of the chart for what git describe prints. Without a tag it is
// older than each release.
func chartVersion(described string) (string, error) {
	version := strings.TrimPrefix(described, "v")
	if commit.MatchString(described) {
		version = "0.0.0-g" + described
	}
	if !semantic.MatchString(version) {
		return "", fmt.Errorf("version %q: want a tag such as v0.1.0 or v0.1.0-rc.1, or what git describe prints", described)
	}
	return version, nil
}

// writeChart packs the chart, with its version and with the digest of the image. "helm package"
// would write the time at which it runs.
func writeChart(out, root, described, digest string, created time.Time) error {
	version, err := chartVersion(described)
	if err != nil {
		return err
	}
	stamps := map[string][][2]string{
		"Chart.yaml": {
			{"\nversion: 0.0.0\n", "\nversion: " + version + "\n"},
			{"\nappVersion: \"v0.0.0\"\n", "\nappVersion: \"" + described + "\"\n"},
		},
		"values.yaml": {{"\n  digest: \"\"\n", "\n  digest: " + digest + "\n"}},
	}
	dir := filepath.Join(root, "deploy/chart")
	var data bytes.Buffer
	compressor, err := gzip.NewWriterLevel(&data, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressor)
	err = filepath.WalkDir(dir, func(path string, found fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case found.IsDir() && relative == "charttest":
			return filepath.SkipDir
		case found.IsDir() || relative == ".helmignore":
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, stamp := range stamps[relative] {
			if bytes.Count(content, []byte(stamp[0])) != 1 {
				return fmt.Errorf("%s: want %q once: its place in this file is stamped", path, stamp[0])
			}
			content = bytes.Replace(content, []byte(stamp[0]), []byte(stamp[1]), 1)
		}
		err = archive.WriteHeader(&tar.Header{
			Name: chartName + "/" + filepath.ToSlash(relative), Size: int64(len(content)), Mode: 0o644,
			ModTime: created, Format: tar.FormatPAX, Typeflag: tar.TypeReg,
		})
		if err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := compressor.Close(); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, chartName+"-"+version+".tgz"), data.Bytes(), 0o644)
}
