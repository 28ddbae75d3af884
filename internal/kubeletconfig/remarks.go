package kubeletconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"nodepartition/internal/oneline"
)

// maxRepeated bounds the number of remarks about fields that are there twice.
const maxRepeated = 10

// remarks finds what the conversion to JSON drops without a word, in the kubelet as here: all but
// the last of fields of one name, and all but the first YAML document. It says nothing about a file
// that it cannot parse, which a JSON file with surrogate pairs is.
func remarks(data []byte) []string {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first yaml.Node
	if decoder.Decode(&first) != nil {
		return nil
	}
	r := repeated{top: append(relevant(), "apiVersion", "kind")}
	r.find(&first, "", 0)
	list := r.list
	if r.more > 0 {
		list = append(list, fmt.Sprintf("%d more fields are there twice, and the last of each counts; remove one", r.more))
	}
	for {
		var next yaml.Node
		err := decoder.Decode(&next)
		switch {
		case errors.Is(err, io.EOF):
			return list
		case err == nil && isEmpty(&next):
			continue
		case err == nil:
			return append(list, fmt.Sprintf(
				"has a second YAML document in line %d, which does not count, nor does what follows; remove it",
				next.Content[0].Line,
			))
		}
		return append(list, "has a second YAML document, which does not count and is not valid; remove it")
	}
}

// isEmpty reports whether a document has nothing between two lines of ---.
func isEmpty(document *yaml.Node) bool {
	return len(document.Content) == 1 && document.Content[0].Tag == "!!null" && document.Content[0].Value == ""
}

// repeated collects the fields that an object has more than once, of those that bear on partitions.
type repeated struct {
	top  []string // the fields to look at
	list []string
	more int
}

// maxLevel bounds the levels of a file that are looked at. A section has five.
const maxLevel = 10

// find looks at a node and at what is below it. Aliases are not followed: what they name is looked
// at where it is.
func (r *repeated) find(n *yaml.Node, path string, level int) {
	//guard: a path of a YAML file is not written out at each level
	if level > maxLevel {
		return
	}
	if n.Kind != yaml.MappingNode {
		for i, child := range n.Content {
			below := path
			if n.Kind == yaml.SequenceNode {
				below = fmt.Sprintf("%s[%d]", path, i)
			}
			r.find(child, below, level+1)
		}
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field := oneline.ASCII(key.Value)
		if path != "" {
			field = path + "." + field
		} else if !slices.Contains(r.top, key.Value) {
			continue // the kubelet's business
		}
		if before, twice := lines[key.Value]; twice {
			r.add(field, before, key.Line)
		}
		lines[key.Value] = key.Line
		r.find(value, field, level+1)
	}
}

func (r *repeated) add(field string, before, line int) {
	if len(r.list) == maxRepeated {
		r.more++
		return
	}
	r.list = append(r.list, fmt.Sprintf("%s: is in line %d, and again in line %d, which counts; remove one", field, before, line))
}
