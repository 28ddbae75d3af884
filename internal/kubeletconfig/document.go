package kubeletconfig

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/text"
)

// The bounds of reading. A full dump of a kubelet's configuration has 6 KB.
const (
	// maxFileBytes bounds a configuration file.
	maxFileBytes = 64 << 10
	// maxTotalBytes bounds the main file and all drop-ins together.
	maxTotalBytes = 256 << 10
	// maxExpandedBytes bounds the expansion of a file's YAML aliases. The YAML library also has a
	// limit (400,000 nodes, go.yaml.in/yaml/v2 2.4.4), but aliases of one long string stay below it
	// while their JSON grows to gigabytes.
	maxExpandedBytes = 512 << 10
)

// The kind of object in the files, as in the first lines of every KubeletConfiguration.
const (
	APIVersion = "kubelet.config.k8s.io/v1beta1"
	Kind       = "KubeletConfiguration"
)

type document struct {
	path   string
	fields map[string]json.RawMessage
	// digest is the SHA-256 of the bytes of the file, in hexadecimal digits.
	digest string
	// remarks are about the form of the file. Each is a warning.
	remarks []string
}

// hasSection reports whether the document has one of the sections that this project reads.
func (d document) hasSection() bool {
	return slices.ContainsFunc(sectionFields(), func(name string) bool { _, ok := d.fields[name]; return ok })
}

// errOtherKind means that a file holds a well-formed object other than a KubeletConfiguration.
type errOtherKind struct{ apiVersion, kind string }

func (e *errOtherKind) Error() string {
	return fmt.Sprintf("apiVersion %s, kind %s; want apiVersion %s, kind %s",
		text.Quote(e.apiVersion), text.Quote(e.kind), APIVersion, Kind)
}

// parseDocument parses the content of a file. It accepts YAML and JSON, as the kubelet does. If the
// first character is "{", it tries JSON first, as the kubelet's serializer does.
func parseDocument(path string, data []byte) (document, error) {
	asJSON, plain, err := toJSON(data)
	if err != nil {
		return document{}, fmt.Errorf("%s: %w", path, err)
	}
	digest := sha256.Sum256(data)
	doc := document{path: path, digest: hex.EncodeToString(digest[:])}
	if err := json.Unmarshal(asJSON, &doc.fields); err != nil || doc.fields == nil {
		return document{}, fmt.Errorf("%s: not an object; want a KubeletConfiguration in YAML or JSON", path)
	}
	// The kubelet requires apiVersion and kind in the main file and in each drop-in.
	var apiVersion, kind string
	err = errors.Join(stringField(doc.fields, "apiVersion", &apiVersion), stringField(doc.fields, "kind", &kind))
	if err != nil {
		return document{}, fmt.Errorf("%s: %w", path, err)
	}
	if apiVersion != APIVersion || kind != Kind {
		return document{}, fmt.Errorf("%s: %w", path, &errOtherKind{apiVersion, kind})
	}
	if !plain {
		var second string
		if doc.remarks, second = remarks(data); second != "" {
			doc.remarks = append(doc.remarks, second)
		}
	}
	return doc, nil
}

func stringField(fields map[string]json.RawMessage, name string, value *string) error {
	raw, ok := fields[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, value); err != nil {
		return fmt.Errorf("%s: %s is not a string", name, text.ASCII(string(raw)))
	}
	return nil
}

// toJSON converts the content of a file. It reports true if it has dropped nothing, so that remarks
// need not parse the file once more.
func toJSON(data []byte) (converted []byte, plain bool, err error) {
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return nil, false, errors.New("is empty; want a KubeletConfiguration")
	}
	if trimmed[0] == '{' && json.Valid(trimmed) {
		return trimmed, false, nil
	}
	if err := checkExpansion(data); err != nil {
		return nil, false, err
	}
	// The strict conversion fails if a field is there twice. A second document begins with one of two
	// marks, after one of five line breaks. The first may begin with one, too.
	converted, err = sigsyaml.YAMLToJSONStrict(data)
	rest := bytes.TrimPrefix(data, []byte("---"))
	//guard: a file with a second document or a field twice is parsed for remarks
	plain = err == nil && !bytes.Contains(rest, []byte("---")) && !bytes.Contains(rest, []byte("..."))
	if err != nil {
		converted, err = sigsyaml.YAMLToJSON(data)
	}
	if err != nil {
		return nil, false, notYAML(data, err)
	}
	return converted, plain, nil
}

// notYAML returns an error about data, which YAML indents by spaces alone.
func notYAML(data []byte, err error) error {
	cure := ""
	if bytes.IndexByte(data, '\t') >= 0 {
		cure = "; want spaces and no tabs"
	}
	return fmt.Errorf("not YAML or JSON: %s%s", text.ASCII(err.Error()), cure)
}

// checkExpansion refuses YAML whose aliases expand to more than maxExpandedBytes. Without an anchor
// and an alias there is nothing to expand, and it saves the second parse.
func checkExpansion(data []byte) error {
	if bytes.IndexByte(data, '&') < 0 || bytes.IndexByte(data, '*') < 0 {
		return nil
	}
	var node yaml.Node
	// Only the first document, as in the conversion.
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&node); err != nil {
		return notYAML(data, err)
	}
	sizes := expansion{sizes: map[*yaml.Node]int{}}
	if sizes.of(&node) > maxExpandedBytes {
		return fmt.Errorf("its YAML aliases expand to more than %d bytes; write the values out", maxExpandedBytes)
	}
	return nil
}

// expansion computes the size of nodes with their aliases written out. Sizes saturate just above
// the limit, so that they cannot overflow. Each node is computed once.
type expansion struct {
	sizes map[*yaml.Node]int
}

func (e expansion) of(n *yaml.Node) int {
	const tooMuch = maxExpandedBytes + 1
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if size, ok := e.sizes[n]; ok {
		return size
	}
	e.sizes[n] = tooMuch // an alias to one of its own ancestors has no end
	size := len(n.Value) + 16
	for _, child := range n.Content {
		if size += e.of(child); size > tooMuch {
			size = tooMuch
			break
		}
	}
	e.sizes[n] = size
	return size
}
