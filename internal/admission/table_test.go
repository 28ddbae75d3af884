package admission

import (
	"flag"
	"maps"
	"os"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"nodepartition/tests/admissionpods"
)

var update = flag.Bool("update", false, "write the outcomes of the table of pods")

// server stands in for an API server whose policies are in Go.
type server struct {
	types     []Type
	namespace Namespace
	defaults  *v1.LimitRangeItem
	injects   bool
}

func newServer(table admissionpods.Table, namespace string) server {
	var s server
	for _, name := range slices.Sorted(maps.Keys(table.Types)) {
		of := table.Types[name]
		s.types = append(s.types, Type{Name: name, Namespaces: of.Namespaces, ByNamespace: !of.Silent})
	}
	in := table.Namespaces[namespace]
	s.namespace = Namespace{Name: namespace, Annotations: in.Annotations}
	s.defaults, s.injects = in.LimitRange, in.Injects
	return s
}

// create returns the outcome of a pod. As on an API server, LimitRanger and the conversion run once
// more after another plugin has changed the pod.
func (s server) create(pod *v1.Pod) (admissionpods.Outcome, error) {
	setDefaults(pod)
	s.limitRanger(pod)
	Convert(s.types, s.namespace, pod).Apply(pod)
	if s.injects {
		pod.Spec.Containers = append(pod.Spec.Containers, proxy())
	}
	setDefaults(pod)
	s.limitRanger(pod)
	Convert(s.types, s.namespace, pod).Apply(pod)
	if err := Judge(s.types, s.namespace, pod); err != nil {
		return admissionpods.Outcome{Refused: err.Error()}, err
	}
	return admissionpods.OutcomeOf(pod, classOf(containersOf(pod))), nil
}

// proxy is the sidecar that tests/kubeapi has another policy add.
func proxy() v1.Container {
	return v1.Container{Name: "proxy", Image: "none", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("1Mi")},
		Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
	}}
}

// setDefaults does what the API server does with resources (SetDefaults_Pod and
// SetDefaults_ResourceList, pkg/apis/core/v1, v1.37.0).
func setDefaults(pod *v1.Pod) {
	each(pod, func(c *v1.Container) {
		for name, q := range c.Resources.Limits {
			if _, ok := c.Resources.Requests[name]; !ok {
				if c.Resources.Requests == nil {
					c.Resources.Requests = v1.ResourceList{}
				}
				c.Resources.Requests[name] = q
			}
		}
		for _, list := range []v1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for name, q := range list {
				q.RoundUp(resource.Milli)
				list[name] = q
			}
		}
	})
}

func each(pod *v1.Pod, do func(*v1.Container)) {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			do(&list[i])
		}
	}
}

// limitRanger does what the plugin does with defaults.
func (s server) limitRanger(pod *v1.Pod) {
	if s.defaults == nil {
		return
	}
	note := ""
	each(pod, func(c *v1.Container) {
		what := " for container " + c.Name
		if slices.ContainsFunc(pod.Spec.InitContainers, func(init v1.Container) bool { return init.Name == c.Name }) {
			what = " for init container " + c.Name
		}
		add(&note, setMissing(&c.Resources.Requests, s.defaults.DefaultRequest), " request"+what)
		add(&note, setMissing(&c.Resources.Limits, s.defaults.Default), " limit"+what)
	})
	if note != "" {
		pod.Annotations[limitRangerKey] = "LimitRanger plugin set: " + note
	}
}

func setMissing(list *v1.ResourceList, from v1.ResourceList) (set string) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = v1.ResourceList{}
		}
		(*list)[name] = from[name]
		add(&set, string(name), "")
	}
	return set
}

func add(to *string, set, what string) {
	switch {
	case set == "":
	case *to == "":
		*to = set + what
	case what == "":
		*to += ", " + set
	default:
		*to += "; " + set + what
	}
}

// TestTable: each pod of the table has the outcome that it has with the policy, on an API server.
func TestTable(t *testing.T) {
	t.Parallel()
	table, wanted := admissionpods.Load(t)
	got := map[string]admissionpods.Outcome{}
	for _, c := range table.Pods {
		if c.Server != "" {
			continue // it is refused by what is not here
		}
		got[c.Name], _ = newServer(table, c.Namespace).create(c.Pod())
	}
	if *update {
		data, err := yaml.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("../../tests/admissionpods/expected.yaml", data, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(got) < 40 || len(got) != len(wanted) {
		t.Errorf("%d outcomes; want %d, and 40 at least", len(got), len(wanted))
	}
	for name, o := range got {
		if o.String() != wanted[name].String() {
			t.Errorf("%s:\n%s\nwant\n%s", name, o, wanted[name])
		}
	}
}

// TestLeftAlone: what asks for no type is not changed, and neither is a mirror pod.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	pod := &v1.Pod{}
	pod.Annotations = map[string]string{"a": "b"}
	if e := Convert(nil, Namespace{}, pod); len(e.Remove)+len(e.Set)+len(e.Milli) != 0 {
		t.Errorf("%+v; want no change", e)
	}
	pod.Annotations = map[string]string{mirrorKey: "x", resourcesKey("c"): "y"}
	if e := Convert(nil, Namespace{}, pod); len(e.Remove)+len(e.Set) != 0 {
		t.Errorf("%+v; want no change of a mirror pod", e)
	}
	if err := Judge(nil, Namespace{}, pod); err != nil {
		t.Error(err)
	}
}
