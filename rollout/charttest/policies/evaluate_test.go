package policies

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	server "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/admission"
)

// policies holds the rendered policies about pods.
type policies struct {
	mutating   admissionv1.MutatingAdmissionPolicy
	validating admissionv1.ValidatingAdmissionPolicy
	// required is about the namespaces of members.
	required admissionv1.MutatingAdmissionPolicy
}

func rendered(t *testing.T, types ...admission.Type) policies {
	t.Helper()
	return renderedFor(t, admission.PolicyCluster{Types: types, APIVersion: admission.PolicyV1})
}

func renderedFor(t *testing.T, c admission.PolicyCluster) policies {
	t.Helper()
	text, err := admission.Policies(c)
	if err != nil {
		t.Fatal(err)
	}
	var p policies
	for document := range strings.SplitSeq(text, "\n---\n") {
		var meta metav1.PartialObjectMetadata
		err := yaml.Unmarshal([]byte(document), &meta)
		switch {
		case err == nil && meta.Name == "node-partition-required" && meta.Kind == "MutatingAdmissionPolicy":
			err = yaml.UnmarshalStrict([]byte(document), &p.required)
		case err == nil && meta.Name != admission.PolicyName:
		case err == nil && meta.Kind == "MutatingAdmissionPolicy":
			err = yaml.UnmarshalStrict([]byte(document), &p.mutating)
		case err == nil && meta.Kind == "ValidatingAdmissionPolicy":
			err = yaml.UnmarshalStrict([]byte(document), &p.validating)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// compiled is a policy as an API server has it.
type compiled struct {
	*plugincel.CompositedCompiler
	match, rules plugincel.ConditionEvaluator
	messages     plugincel.ConditionEvaluator // of the rules
	mutation     plugincel.MutatingEvaluator
	validations  []admissionv1.Validation
	errs         []error
}

// newest is the API server whose CEL the tests evaluate by. 1.37 compiles what 1.36 knows.
const newest = 36

// compile compiles a policy as an API server does that takes new expressions of 1.minor.
func compile(t *testing.T, minor uint, mode environment.Type, conditions []admissionv1.MatchCondition,
	variables []admissionv1.Variable, validations []admissionv1.Validation, mutations []admissionv1.Mutation,
) compiled {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, minor)))
	if err != nil {
		t.Fatal(err)
	}
	o := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	c := compiled{CompositedCompiler: compiler, validations: validations}
	for i := range variables {
		of := validating.Variable(variables[i])
		if r := compiler.CompileAndStoreVariable(&of, o, mode); r.Error != nil {
			c.errs = append(c.errs, fmt.Errorf("variable %s: %s", of.Name, r.Error.Detail))
		}
	}
	condition := func(expressions []plugincel.ExpressionAccessor) plugincel.ConditionEvaluator {
		evaluator := compiler.CompileCondition(expressions, o, mode)
		c.errs = append(c.errs, evaluator.CompilationErrors()...)
		return evaluator
	}
	matches := make([]plugincel.ExpressionAccessor, 0, len(conditions))
	rules := make([]plugincel.ExpressionAccessor, 0, len(validations))
	messages := make([]plugincel.ExpressionAccessor, len(validations)) // nil for a fixed text
	for i := range conditions {
		matches = append(matches, (*matchconditions.MatchCondition)(&conditions[i]))
	}
	for i := range validations {
		rules = append(rules, &validating.ValidationCondition{Expression: validations[i].Expression})
		if text := validations[i].MessageExpression; text != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: text}
		}
	}
	c.match, c.rules, c.messages = condition(matches), condition(rules), condition(messages)
	o.HasPatchTypes = true
	for _, m := range mutations {
		c.mutation = compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, o, mode)
		c.errs = append(c.errs, c.mutation.CompilationErrors()...)
	}
	return c
}

func (p policies) compile(t *testing.T) (convert, judge compiled) {
	t.Helper()
	m, v := p.mutating.Spec, p.validating.Spec
	convert = compile(t, newest, environment.StoredExpressions, m.MatchConditions, m.Variables, nil, m.Mutations)
	judge = compile(t, newest, environment.StoredExpressions, v.MatchConditions, v.Variables, v.Validations, nil)
	if err := errors.Join(append(convert.errs, judge.errs...)...); err != nil {
		t.Fatal(err)
	}
	return convert, judge
}

// request holds the object that a client sends, and the object that the API server has.
type request struct {
	object, old runtime.Object
	subresource string
	namespace   *v1.Namespace
}

func (r request) attributes() *server.VersionedAttributes {
	kind, resource := v1.SchemeGroupVersion.WithKind("Pod"), v1.SchemeGroupVersion.WithResource("pods")
	if _, is := r.object.(*v1.Binding); is {
		kind.Kind = "Binding"
	}
	operation := server.Create
	if r.old != nil {
		operation = server.Update
	}
	a := server.NewAttributesRecord(r.object, r.old, kind, r.namespace.Name, "p", resource, r.subresource, operation, nil, false, nil)
	v := &server.VersionedAttributes{Attributes: a, VersionedKind: kind, VersionedObject: server.NewLazyObject(r.object)}
	if r.old != nil {
		v.VersionedOldObject = server.NewLazyObject(r.old)
	}
	return v
}

// evaluate returns the results of conditions and their cost.
func (r request) evaluate(t *testing.T, of plugincel.ConditionEvaluator, in *v1.Namespace) ([]plugincel.EvaluationResult, int64) {
	t.Helper()
	attributes := r.attributes()
	asked := plugincel.CreateAdmissionRequest(attributes.Attributes, metav1.GroupVersionResource(attributes.GetResource()), metav1.GroupVersionKind(attributes.VersionedKind))
	results, left, err := of.ForInput(context.Background(), attributes, asked, plugincel.OptionalVariableBindings{}, in, math.MaxInt32)
	if err != nil {
		t.Fatal(err)
	}
	return results, math.MaxInt32 - left
}

// matches reports whether the policy is about a request, and what it costs to know that.
func (c compiled) matches(t *testing.T, r request) (bool, int64) {
	t.Helper()
	results, cost := r.evaluate(t, c.match, nil)
	for _, result := range results {
		if result.Error != nil {
			t.Fatal(result.Error)
		}
		if result.EvalResult.Value() != true {
			return false, cost
		}
	}
	return true, cost
}

// judge returns why a request is denied, nil if it is not, and the cost.
func (c compiled) judge(t *testing.T, r request) (cost int64, refused error) {
	t.Helper()
	is, before := c.matches(t, r)
	if !is {
		return before, nil
	}
	results, cost := r.evaluate(t, c.rules, r.namespace)
	for i, result := range results {
		switch {
		case result.Error != nil:
			return before + cost, fmt.Errorf("rule %d: %w", i, result.Error)
		case result.EvalResult.Value() == true:
		case c.validations[i].Message != "":
			return before + cost, errors.New(c.validations[i].Message)
		default:
			texts, _ := r.evaluate(t, c.messages, r.namespace)
			return before + cost, fmt.Errorf("%v", texts[i].EvalResult.Value())
		}
	}
	return before + cost, nil
}

// convert changes the pod of a request, and returns the cost.
func (c compiled) convert(t *testing.T, r request, into *v1.Pod) int64 {
	t.Helper()
	is, before := c.matches(t, r)
	if !is {
		return before
	}
	attributes := r.attributes()
	asked := plugincel.CreateAdmissionRequest(attributes.Attributes, metav1.GroupVersionResource(attributes.GetResource()), metav1.GroupVersionKind(attributes.VersionedKind))
	_, left, err := c.mutation.ForInput(c.CreateContext(context.Background()), attributes, asked, plugincel.OptionalVariableBindings{}, r.namespace, math.MaxInt32)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := patch.NewJSONPatcher(c.mutation).Patch(c.CreateContext(context.Background()), patch.Request{
		MatchedResource: attributes.GetResource(), VersionedAttributes: attributes, Namespace: r.namespace,
		ObjectInterfaces: server.NewObjectInterfacesFromScheme(scheme.Scheme),
	}, math.MaxInt32)
	if err != nil {
		t.Fatal(err)
	}
	*into = *changed.(*v1.Pod)
	return before + math.MaxInt32 - left
}
