package kubeletconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"node-partition.io/node-partition/internal/text"
)

// maxRepeated bounds the number of remarks about fields that are there twice.
const maxRepeated = 10

// remarks finds what the conversion to JSON drops without a word, in the kubelet as here: all but
// the last of fields of one name, and all but the first YAML document. It says nothing about a file
// that it cannot parse, which a JSON file with surrogate pairs is. second is about a second
// document, "" without one.
func remarks(data []byte) (list []string, second string) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first yaml.Node
	if decoder.Decode(&first) != nil {
		return nil, ""
	}
	r := repeated{}
	r.find(&first)
	list = r.list
	if r.more > 0 {
		list = append(list, fmt.Sprintf("%d more fields are there twice, and the last of each counts; remove one", r.more))
	}
	for {
		var next yaml.Node
		err := decoder.Decode(&next)
		switch {
		case errors.Is(err, io.EOF):
			return list, ""
		case err == nil && isEmpty(&next):
			continue
		case err == nil:
			return list, fmt.Sprintf(
				"has a second YAML document in line %d, which does not count, nor does what follows; remove it",
				next.Content[0].Line,
			)
		}
		return list, "has a second YAML document, which does not count and is not valid; remove it"
	}
}

// isEmpty reports whether a document has nothing between two lines of ---.
func isEmpty(document *yaml.Node) bool {
	return len(document.Content) == 1 && document.Content[0].Tag == "!!null" && document.Content[0].Value == ""
}

// repeated collects the fields that an object has more than once.
type repeated struct {
	list []string
	more int
}

// find looks at a node and at what is below it. Aliases are not followed: what they name is looked
// at where it is.
func (r *repeated) find(n *yaml.Node) {
	lines := map[string]int{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			before, twice := lines[child.Value]
			switch {
			case twice && len(r.list) == maxRepeated:
				r.more++
			case twice:
				r.list = append(r.list, fmt.Sprintf("%s: is in line %d, and again in line %d, which counts; remove one",
					text.ASCII(child.Value), before, child.Line))
			}
			lines[child.Value] = child.Line
		}
		r.find(child)
	}
}
