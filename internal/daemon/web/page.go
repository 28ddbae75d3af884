package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"slices"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	styleText string

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"bytes": humanBytes}).Parse(pageText))
	// policy forbids a browser to load anything. The style is part of the page, and the policy has its
	// hash.
	policy = fmt.Sprintf(
		"default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		hash(styleText),
	)
)

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// page holds the values for page.html.
type page struct {
	Style   template.CSS
	Version string
	Report  podmove.Report
	Sources []source
	Alive   error
	Ready   error
	// Partitions holds the memory of the partitions that exist.
	Partitions []memory
}

type source struct {
	Name      string
	Connected bool
}

// memory is the memory of a partition.
type memory struct {
	Name unitname.PartitionName
	// Problem is the reason why the figures are not known, empty if they are.
	Problem                  string
	WorkingSet, Usage, Limit uint64
	Limited                  bool
}

func (o Options) page(w http.ResponseWriter, _ *http.Request) {
	p := page{
		Style: template.CSS(styleText), Version: o.Version, Report: o.Reports.Report(), Alive: o.Alive(), Ready: o.Ready(),
	}
	connected := o.Sources()
	for _, name := range slices.Sorted(maps.Keys(connected)) {
		p.Sources = append(p.Sources, source{name, connected[name]})
	}
	p.Partitions = o.memories()
	var text bytes.Buffer // so that an error is found before the status is written
	if err := pageTemplate.Execute(&text, p); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text.Bytes()) // fails if the client is gone
}

// memories returns the memory of each partition whose slice exists.
func (o Options) memories() []memory {
	all := make([]memory, 0, len(o.Partitions))
	for _, name := range o.Partitions {
		m := memory{Name: name}
		switch stat, err := o.Cgroups.Stat(unitname.CgroupPath(name.Slice())); {
		case errors.Is(err, fs.ErrNotExist):
			continue // it is not active
		case err != nil:
			m.Problem = err.Error()
		case !stat.HasMemory:
			m.Problem = "The memory controller is off."
		default:
			m.WorkingSet, m.Usage, m.Limit = stat.WorkingSet(), stat.MemoryCurrent, stat.MemoryMax
			m.Limited = stat.MemoryMax != cgroupfs.Unlimited
		}
		all = append(all, m)
	}
	return all
}

// humanBytes formats bytes with a binary unit.
func humanBytes(n uint64) string {
	value, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
