// Package golden reads and runs the cases of what partition-generator writes on a node.
//
// testdata/N-what-it-shows.txtar is one case: the differences from the node in node/, and under
// expected/ the result, byte for byte. Beside prose, its comment may have lines of three kinds:
//
//	remove: var      removes this from the node in node/
//	status: 1        the exit status, if it is not 0
//	shared: none     the result lacks the units of testdata/shared.txtar
//
// and its files are
//
//	etc/fstab              a file of the node
//	expected/messages      the generator's messages
//	expected/units/a.slice a unit that systemd finds in the generator's directory
//
// testdata/shared.txtar holds units that nearly all results have. A case with any expected unit has
// them, too, unless it says that it has none, or has a unit of that name with other content. What
// it has below refused/ are the other units of a node whose configuration is refused.
//
// testdata/errors.txtar is the table of configurations that are refused. A case has two entries:
// "N-what-it-shows", the kubelet's configuration after its apiVersion and kind, and
// "N-what-it-shows says", the messages before the line that no partition is made. Such a
// case has the exit status 1, and the units of shared.txtar, which wait for a repair.
package golden

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"
)

// ConfigPath is the path of the configuration in most cases.
const ConfigPath = "var/lib/kubelet/config.yaml"

// KubeletHead is the head of every configuration of a kubelet.
const KubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

const (
	errorsFile = "errors.txtar"
	sharedFile = "shared.txtar"
	says       = " says"
	expected   = "expected/"
	units      = expected + "units/"
	// refusedUnits is the folder in sharedFile of what waits for the repair of a configuration.
	refusedUnits = "refused/units/"
	sharesNone   = "shared: none"
	// prefix is the start of every message. refused is the last message if a configuration is refused.
	prefix  = "partition-generator: "
	refused = prefix + "no partition is made. Repair the configuration and run systemctl daemon-reload\n"
)

// Case is a node and the generator's result on it.
type Case struct {
	// Name is N-what-it-shows.
	Name string
	// Remove lists what this node lacks of the node that all cases share.
	Remove []string
	// Files holds the node's additional files, by path.
	Files map[string]string
	// Want is the expected result.
	Want Result
}

// Result is the outcome of a run.
type Result struct {
	// Status is the exit status.
	Status int
	// Messages holds the lines that the generator prints, with ROOT for the root of the node.
	Messages string
	// Units holds the files in the generator's directory by path, links followed.
	Units map[string]string
}

// Load returns the cases below dir, which is tests/generator.
func Load(dir string) ([]Case, error) {
	files, err := caseFiles(dir)
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, file := range files {
		c, err := Read(dir, caseName(file))
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	archive, err := txtar.ParseFile(errorsPath(dir))
	if err != nil {
		return nil, err
	}
	_, ofRefused, err := readShared(dir)
	if err != nil {
		return nil, err
	}
	table, err := parseErrors(archive, ofRefused)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", errorsPath(dir), err)
	}
	return append(cases, table...), nil
}

// Read returns a case from its own file.
func Read(dir, name string) (Case, error) {
	file := filepath.Join(dir, "testdata", name+".txtar")
	archive, err := txtar.ParseFile(file)
	if err != nil {
		return Case{}, err
	}
	shared, _, err := readShared(dir)
	if err != nil {
		return Case{}, err
	}
	c, err := parseCase(name, archive, shared)
	if err != nil {
		return Case{}, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// readShared returns the units that cases share, and all units of a node whose configuration is
// refused, by path.
func readShared(dir string) (shared, ofRefused map[string]string, err error) {
	file := filepath.Join(dir, "testdata", sharedFile)
	archive, err := txtar.ParseFile(file)
	if err != nil {
		return nil, nil, err
	}
	shared, ofRefused = map[string]string{}, map[string]string{}
	for _, f := range archive.Files {
		name, always := strings.CutPrefix(f.Name, units)
		if always {
			shared[name] = string(f.Data)
		} else if name, always = strings.CutPrefix(f.Name, refusedUnits); !always {
			return nil, nil, fmt.Errorf("%s: %s: want %s or %s", file, f.Name, units, refusedUnits)
		}
		ofRefused[name] = string(f.Data)
	}
	return shared, ofRefused, nil
}

func errorsPath(dir string) string { return filepath.Join(dir, "testdata", errorsFile) }

// caseFiles returns the files that hold one case each.
func caseFiles(dir string) ([]string, error) {
	return filepath.Glob(filepath.Join(dir, "testdata", "[0-9]*-*.txtar"))
}

func caseName(file string) string { return strings.TrimSuffix(filepath.Base(file), ".txtar") }

func parseCase(name string, archive *txtar.Archive, shared map[string]string) (Case, error) {
	c := Case{Name: name, Files: map[string]string{}, Want: Result{Units: map[string]string{}}}
	for line := range strings.Lines(string(archive.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		var err error
		switch key {
		case "remove":
			c.Remove = append(c.Remove, value)
		case "status":
			c.Want.Status, err = strconv.Atoi(value)
		case "shared":
			if value != "none" {
				err = fmt.Errorf("%q; want none", value)
			}
			shared = nil
		}
		if err != nil {
			return Case{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	seen := map[string]bool{}
	for _, file := range archive.Files {
		if seen[file.Name] {
			return Case{}, fmt.Errorf("%s stands there twice", file.Name)
		}
		seen[file.Name] = true
		path, isExpected := strings.CutPrefix(file.Name, expected)
		unit, isUnit := strings.CutPrefix(file.Name, units)
		switch {
		case !isExpected:
			c.Files[file.Name] = string(file.Data)
		case isUnit:
			c.Want.Units[unit] = string(file.Data)
		case path == "messages":
			c.Want.Messages = string(file.Data)
		default:
			return Case{}, fmt.Errorf("%s: want expected/messages or expected/units/", file.Name)
		}
	}
	if len(c.Want.Units) == 0 {
		return c, nil
	}
	for unit, content := range shared {
		if _, other := c.Want.Units[unit]; !other {
			c.Want.Units[unit] = content
		}
	}
	return c, nil
}

func parseErrors(archive *txtar.Archive, ofRefused map[string]string) ([]Case, error) {
	var cases []Case
	for i := 0; i < len(archive.Files); i += 2 {
		config := archive.Files[i]
		if i+1 == len(archive.Files) || archive.Files[i+1].Name != config.Name+says {
			return nil, fmt.Errorf("%s: want %q after it", config.Name, config.Name+says)
		}
		var messages strings.Builder
		for line := range strings.Lines(string(archive.Files[i+1].Data)) {
			messages.WriteString(prefix + line)
		}
		cases = append(cases, Case{
			Name:  config.Name,
			Files: map[string]string{ConfigPath: KubeletHead + string(config.Data)},
			Want:  Result{Status: 1, Messages: messages.String() + refused, Units: ofRefused},
		})
	}
	return cases, nil
}

// Update writes got, results by name, as the expectations of the cases below dir.
func Update(dir string, got map[string]Result) error {
	files, err := caseFiles(dir)
	if err != nil {
		return err
	}
	shared, ofRefused, err := readShared(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		set := func(archive *txtar.Archive) error {
			return setExpected(archive, got[caseName(file)], shared)
		}
		if err := updateFile(file, set); err != nil {
			return err
		}
	}
	return updateFile(errorsPath(dir), func(archive *txtar.Archive) error { return setErrors(archive, got, ofRefused) })
}

func updateFile(path string, change func(*txtar.Archive) error) error {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return err
	}
	if err := change(archive); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, txtar.Format(archive), 0o644)
}

func setExpected(archive *txtar.Archive, r Result, shared map[string]string) error {
	var comment bytes.Buffer
	for line := range strings.Lines(string(archive.Comment)) {
		if !strings.HasPrefix(line, "status: ") && line != sharesNone+"\n" {
			comment.WriteString(line)
		}
	}
	if r.Status != 0 {
		fmt.Fprintf(&comment, "status: %d\n", r.Status)
	}
	lacks := slices.DeleteFunc(slices.Sorted(maps.Keys(shared)), func(name string) bool {
		_, has := r.Units[name]
		return has
	})
	switch {
	case len(lacks) == 0 || len(r.Units) == 0:
	case len(lacks) == len(shared):
		comment.WriteString(sharesNone + "\n")
	default:
		return fmt.Errorf("the result lacks %q and not all units of %s", lacks, sharedFile)
	}
	archive.Comment = comment.Bytes()
	archive.Files = slices.DeleteFunc(
		archive.Files,
		func(f txtar.File) bool { return strings.HasPrefix(f.Name, expected) },
	)
	if r.Messages != "" {
		archive.Files = append(archive.Files, txtar.File{Name: expected + "messages", Data: []byte(r.Messages)})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Units)) {
		if content, is := shared[name]; is && content == r.Units[name] {
			continue
		}
		archive.Files = append(archive.Files, txtar.File{Name: units + name, Data: []byte(r.Units[name])})
	}
	return nil
}

func setErrors(archive *txtar.Archive, got map[string]Result, ofRefused map[string]string) error {
	for i := 1; i < len(archive.Files); i += 2 {
		name := archive.Files[i-1].Name
		r := got[name]
		messages, isRefused := strings.CutSuffix(r.Messages, refused)
		if !isRefused || r.Status != 1 || !maps.Equal(r.Units, ofRefused) {
			return fmt.Errorf("%s is not refused any more: %+v; give it a file of its own", name, r)
		}
		archive.Files[i].Data = []byte(strings.ReplaceAll("\n"+messages, "\n"+prefix, "\n")[1:])
	}
	return nil
}
