package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
)

// coresText returns a change as "type=value" and "type=" for a removal.
func coresText(cores map[string]*int64) string {
	list := make([]string, 0, len(cores))
	for _, one := range slices.Sorted(maps.Keys(cores)) {
		value := ""
		if cores[one] != nil {
			value = strconv.FormatInt(*cores[one], 10)
		}
		list = append(list, one+"="+value)
	}
	return strings.Join(list, " ")
}

type values map[string]int64

// TestDecide: what is written follows from the types, from what was written before, and from the
// Node. A later start may remove what is remembered.
func TestDecide(t *testing.T) {
	t.Parallel()
	has := func(uid string, cores values, ours ...string) kubeapi.Node {
		return kubeapi.Node{UID: uid, Cores: cores, Ours: ours}
	}
	wrote := func(uid string, written values) node.Written { return node.Written{Node: uid, Cores: written} }
	none := node.Written{}
	a, ab := []string{"a"}, []string{"a", "b"}
	for name, test := range map[string]struct {
		types         []string
		value         int64
		known         node.Written
		node          kubeapi.Node
		want          string
		before, after values // Cores
	}{
		"nothing":                      {nil, 4000, none, has("1", nil), "", nil, nil},
		"a type":                       {a, 4000, none, has("1", nil), "a=4000", nil, values{"a": 4000}},
		"two types":                    {ab, 4000, none, has("1", nil), "a=4000 b=4000", nil, values{"a": 4000, "b": 4000}},
		"is there":                     {a, 4000, wrote("1", values{"a": 4000}), has("1", values{"a": 4000}), "", values{"a": 4000}, values{"a": 4000}},
		"one of two is there":          {ab, 4000, wrote("1", values{"a": 4000}), has("1", values{"a": 4000}), "b=4000", values{"a": 4000}, values{"a": 4000, "b": 4000}},
		"zeroed":                       {a, 4000, wrote("1", values{"a": 4000}), has("1", values{"a": 0}), "a=4000", values{"a": 4000}, values{"a": 4000}},
		"raised by somebody":           {a, 4000, wrote("1", values{"a": 4000}), has("1", values{"a": 9000}), "a=4000", values{"a": 4000}, values{"a": 4000}},
		"removed by somebody":          {a, 4000, wrote("1", values{"a": 4000}), has("1", nil), "a=4000", values{"a": 4000}, values{"a": 4000}},
		"more CPUs":                    {a, 8000, wrote("1", values{"a": 4000}), has("1", values{"a": 4000}), "a=8000", values{"a": 4000}, values{"a": 8000}},
		"fewer CPUs":                   {a, 2000, wrote("1", values{"a": 4000}), has("1", values{"a": 4000}), "", values{"a": 4000}, values{"a": 4000}},
		"fewer CPUs, zeroed":           {a, 2000, wrote("1", values{"a": 4000}), has("1", values{"a": 0}), "a=4000", values{"a": 4000}, values{"a": 4000}},
		"fewer CPUs after a boot":      {a, 2000, none, has("1", values{"a": 4000}, "a"), "a=2000", values{"a": 0}, values{"a": 2000}},
		"the same CPUs after a boot":   {a, 4000, none, has("1", values{"a": 4000}, "a"), "", values{"a": 0}, values{"a": 4000}},
		"somebody's, the same":         {a, 4000, none, has("1", values{"a": 4000}), "", nil, nil},
		"somebody's, another":          {a, 4000, none, has("1", values{"a": 3000}), "a=4000", nil, values{"a": 4000}},
		"CPUs are not known":           {a, 0, none, has("1", nil), "", nil, nil},
		"CPUs are not known, restart":  {a, 0, wrote("1", values{"a": 4000}), has("1", values{"a": 0}), "a=4000", values{"a": 4000}, values{"a": 4000}},
		"a type goes":                  {a, 4000, wrote("1", values{"a": 4000, "b": 4000}), has("1", values{"a": 4000, "b": 4000}), "b=", values{"a": 4000, "b": 4000}, values{"a": 4000, "b": 4000}},
		"a type goes, zeroed":          {nil, 4000, wrote("1", values{"b": 4000}), has("1", values{"b": 0}), "b=", values{"b": 4000}, values{"b": 4000}},
		"a type goes, CPUs not known":  {nil, 0, wrote("1", values{"b": 4000}), has("1", values{"b": 4000}), "b=", values{"b": 4000}, values{"b": 4000}},
		"a type is gone":               {nil, 4000, wrote("1", values{"b": 4000}), has("1", nil), "", nil, nil},
		"a type goes after a boot":     {a, 4000, none, has("1", values{"a": 4000, "b": 4000}, "a", "b"), "b=", values{"a": 0, "b": 0}, values{"a": 4000, "b": 0}},
		"somebody's type":              {a, 4000, wrote("1", values{"a": 4000}), has("1", values{"a": 4000, "c": 1}), "", values{"a": 4000}, values{"a": 4000}},
		"Node made again":              {a, 4000, wrote("1", values{"a": 4000}), has("2", nil), "a=4000", nil, values{"a": 4000}},
		"Node made again with fewer":   {a, 2000, wrote("1", values{"a": 4000}), has("2", nil), "a=2000", nil, values{"a": 2000}},
		"Node made again by OpenShift": {nil, 4000, wrote("1", values{"b": 4000}), has("2", values{"b": 4000}), "", nil, nil},
	} {
		c := decide(test.types, test.value, test.known, test.node)
		if got := coresText(c.cores); got != test.want {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
		if !maps.Equal(c.before.Cores, test.before) || !maps.Equal(c.after.Cores, test.after) {
			t.Errorf("%s: written before %v, after %v; want %v, %v", name, c.before.Cores, c.after.Cores, test.before, test.after)
		}
	}
}
