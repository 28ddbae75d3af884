// Package filelist reads a list of files that an installation consists of.
package filelist

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Entry is a file of an installation.
type Entry struct {
	Mode fs.FileMode
	// Source is the file that is copied.
	Source string
	// Path is its absolute path in the installation.
	Path string
}

// Read reads the list in the file name below dir. A line has a mode, a source and a destination,
// separated by white space. Empty lines and lines that begin with # are comments. Read replaces
// ${NAME} in both paths by variables["NAME"], and puts dir before a source that is relative. A
// source may be a pattern of filepath.Match. The destination is then a folder, and ends in a slash.
func Read(dir, name string, variables map[string]string) ([]Entry, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	var all []Entry
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		entry, err := parse(line, variables)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, number, err)
		}
		if !filepath.IsAbs(entry.Source) {
			entry.Source = filepath.Join(dir, entry.Source)
		}
		if !strings.HasSuffix(entry.Path, "/") {
			all = append(all, entry)
			continue
		}
		sources, err := filepath.Glob(entry.Source)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, number, err)
		}
		if len(sources) == 0 {
			return nil, fmt.Errorf("%s: line %d: no file matches %s", name, number, entry.Source)
		}
		for _, source := range sources {
			all = append(all, Entry{entry.Mode, source, entry.Path + filepath.Base(source)})
		}
	}
	return all, nil
}

func parse(line string, variables map[string]string) (Entry, error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return Entry{}, fmt.Errorf("%q: want a mode, a source and a destination", line)
	}
	mode, err := strconv.ParseUint(fields[0], 8, 12)
	if err != nil {
		return Entry{}, fmt.Errorf("mode: %w", err)
	}
	var unknown error
	replace := func(text string) string {
		return os.Expand(text, func(name string) string {
			value, ok := variables[name]
			if !ok {
				unknown = errors.Join(unknown, fmt.Errorf("%s: the variable %s is not known", text, name))
			}
			return value
		})
	}
	entry := Entry{fs.FileMode(mode), replace(fields[1]), replace(fields[2])}
	if unknown == nil && !filepath.IsAbs(entry.Path) {
		return Entry{}, fmt.Errorf("the destination %s is not an absolute path", entry.Path)
	}
	return entry, unknown
}
