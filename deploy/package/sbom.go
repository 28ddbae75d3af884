package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The parts of CycloneDX 1.5 that are written (https://cyclonedx.org/docs/1.5/json/).
type (
	bom struct {
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type    string `json:"type"`
		Ref     string `json:"bom-ref"`
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
		URL     string `json:"purl,omitempty"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// writeSBOM lists the modules that each program contains, as the compiler has written them into it:
// the programs are read, and not the sources.
func writeSBOM(r request, out string) error {
	whole := component{Type: "application", Ref: r.name, Name: r.name, Version: r.version.String()}
	list := bom{
		Format: "CycloneDX", Spec: "1.5", Version: 1,
		Metadata: metadata{Timestamp: r.time.Format(time.RFC3339), Component: whole},
	}
	modules := map[string]component{}
	var programs []string
	for _, f := range r.files {
		if f.mode != 0o755 || filepath.Ext(f.path) != "" {
			continue
		}
		info, err := buildinfo.ReadFile(f.source)
		if err != nil {
			return fmt.Errorf("%s: %w", f.source, err)
		}
		program := component{Type: "application", Ref: f.path, Name: filepath.Base(f.path), Version: r.version.String()}
		list.Components = append(list.Components, program)
		programs = append(programs, program.Ref)
		used := []string{addModule(modules, "std", strings.TrimPrefix(info.GoVersion, "go"))}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			used = append(used, addModule(modules, m.Path, m.Version))
		}
		slices.Sort(used)
		list.Dependencies = append(list.Dependencies, dependency{program.Ref, used})
	}
	if len(programs) == 0 {
		return fmt.Errorf("no program among the installed files")
	}
	list.Dependencies = append(list.Dependencies, dependency{whole.Ref, programs})
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		list.Components = append(list.Components, modules[ref])
	}
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, stem(r)+".cdx.json"), append(data, '\n'), 0o644)
}

// addModule adds a module of Go, and returns its reference: a package URL
// (https://github.com/package-url/purl-spec).
func addModule(modules map[string]component, path, version string) string {
	purl := "pkg:golang/" + (&url.URL{Path: path}).EscapedPath() + "@" + version
	modules[purl] = component{Type: "library", Ref: purl, Name: path, Version: version, URL: purl}
	return purl
}
