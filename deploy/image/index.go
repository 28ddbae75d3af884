package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Annotations of the OCI image format (image-spec, annotations.md, v1.1.1).
const (
	titleAnnotation   = "org.opencontainers.image.title"
	versionAnnotation = "org.opencontainers.image.version"
	createdAnnotation = "org.opencontainers.image.created"
	licenseAnnotation = "org.opencontainers.image.licenses"
	sourceAnnotation  = "org.opencontainers.image.source"
	refAnnotation     = "org.opencontainers.image.ref.name"
)

// maxSize is the largest size of the image of an architecture in a registry, in bytes.
const maxSize = 40e6

// user runs what is started without another user. The pods on the nodes name root.
const user = "65532:65532"

// buildIndex returns the images of all architectures, in the order of their names.
func buildIndex(layers map[string]string, version string, created time.Time) (v1.ImageIndex, error) {
	var index v1.ImageIndex = empty.Index
	for _, arch := range slices.Sorted(maps.Keys(layers)) {
		if _, known := machines[arch]; !known {
			return nil, fmt.Errorf("architecture %q: want one of %q", arch, slices.Sorted(maps.Keys(machines)))
		}
		image, err := buildImage(layers[arch], arch, version, created)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	annotated, is := mutate.Annotations(index, annotations(version, created)).(v1.ImageIndex)
	if !is {
		return nil, fmt.Errorf("the index has become %T", annotated)
	}
	return annotated, nil
}

func annotations(version string, created time.Time) map[string]string {
	return map[string]string{
		titleAnnotation: name, versionAnnotation: version, createdAnnotation: created.Format(time.RFC3339),
		licenseAnnotation: "Apache-2.0", sourceAnnotation: "https://node-partition.io",
	}
}

// buildImage returns the image of one architecture: one layer, and no entry point, because the
// image has two programs.
func buildImage(file, arch, version string, created time.Time) (v1.Image, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := checkLayer(content, arch); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	size, err := layer.Size()
	if err == nil && size > maxSize {
		err = fmt.Errorf("%s: %d MB compressed; want %d at most, so that nodes pull the image fast", file, size/1e6, int(maxSize/1e6))
	}
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "make image"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: created}
	config.Config = v1.Config{User: user, Labels: annotations(version, created)}
	return mutate.ConfigFile(image, config)
}

// writeLayout writes an image to a folder, which is replaced as a whole. Its reference is the
// version. The list of the layout has one entry, so that every tool that reads layouts takes it
// without being told which.
func writeLayout(dir string, image v1.ImageIndex, version string) error {
	work := dir + ".new"
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(work), 0o755); err != nil {
		return err
	}
	list := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: image, Descriptor: v1.Descriptor{Annotations: map[string]string{refAnnotation: version}},
	})
	if _, err := layout.Write(work, list); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(work, dir)
}
