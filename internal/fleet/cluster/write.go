package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodepartition/internal/fleet"
)

// CreateJob makes a Job. The error is ErrChanged if there is one of its name.
func (c *Client) CreateJob(ctx context.Context, job *batchv1.Job) (*fleet.Job, error) {
	job.TypeMeta = metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"}
	var made jobObject
	request := c.rest.Post().AbsPath(c.path(jobs)).SetHeader("Content-Type", "application/json").Body(encode(job))
	if err := c.do(ctx, "create jobs", c.place.Namespace+"/"+job.Name, request, &made); err != nil {
		return nil, err
	}
	return made.job(), nil
}

// RemoveJob removes one Job and its pods. It needs only the right to remove collections.
func (c *Client) RemoveJob(ctx context.Context, name string) error {
	return c.remove(ctx, name, "fieldSelector", "metadata.name="+name)
}

// RemoveRolls removes the Jobs of rolls, and their pods. A request that takes too long has removed
// some of them, and the next one goes on. It names the rolls: when the lock was lost meanwhile, the
// Jobs of the next holder must stay.
func (c *Client) RemoveRolls(ctx context.Context, rolls []string) error {
	return c.remove(ctx, "of other rolls", "labelSelector", fleet.RollLabel+" in ("+strings.Join(rolls, ",")+")")
}

func (c *Client) remove(ctx context.Context, name, selector, value string) error {
	// The default of the API server for Jobs leaves their pods behind (DefaultGarbageCollectionPolicy,
	// pkg/registry/batch/job, v1.37.0).
	request := c.rest.Delete().AbsPath(c.path(jobs)).Param(selector, value).
		Param("propagationPolicy", string(metav1.DeletePropagationBackground))
	return c.do(ctx, "deletecollection jobs", c.place.Namespace+"/"+name, request, nil)
}

// LabelNode writes labels of a node, and removes those without a value. It changes nothing else.
// The error is ErrGone if the node of that UID no longer exists.
func (c *Client) LabelNode(ctx context.Context, name, uid string, labels map[string]*string) error {
	//guard: labels are written for the node of that UID alone
	patch := encode(map[string]any{"metadata": map[string]any{"uid": uid, "labels": labels}})
	request := c.rest.Patch(types.MergePatchType).AbsPath(c.path(nodes), name).Body(patch)
	err := c.do(ctx, "patch nodes", name, request, nil)
	if errors.Is(err, ErrChanged) || apierrors.IsInvalid(err) && hasField(err, "metadata.uid") {
		return fmt.Errorf("%w: %w", ErrGone, err) // its UID is immutable
	}
	return err
}

// hasField reports whether an error is about a field.
func hasField(err error, field string) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == field {
			return true
		}
	}
	return false
}

// Owner returns the ConfigMap that owns the Jobs.
func (c *Client) Owner(ctx context.Context) (fleet.Owner, error) {
	var object struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	request := c.rest.Get().AbsPath(c.path(configMaps), c.place.ConfigMap)
	if err := c.do(ctx, "get configmaps", c.place.Namespace+"/"+c.place.ConfigMap, request, &object); err != nil {
		return fleet.Owner{}, err
	}
	return fleet.Owner{Name: object.Metadata.Name, UID: string(object.Metadata.UID)}, nil
}

// Lock reads the lock. It returns nil if there is none.
func (c *Client) Lock(ctx context.Context) (*fleet.Lock, error) {
	var lease coordinationv1.Lease
	err := c.do(ctx, "get leases", c.leaseName(), c.rest.Get().AbsPath(c.path(leases), LeaseName), &lease)
	if errors.Is(err, ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return lockOf(&lease), nil
}

// WriteLock writes the lock if it is as it was read, or if there was none then. The error is
// ErrChanged or ErrGone otherwise.
func (c *Client) WriteLock(ctx context.Context, l *fleet.Lock) (*fleet.Lock, error) {
	now, seconds := metav1.NewMicroTime(time.Now()), int32(l.Duration/time.Second)
	lease := &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{
			Name: LeaseName, ResourceVersion: l.Version, UID: types.UID(l.UID), Annotations: l.Annotations,
		},
		// renewTime is for people: no dispatcher compares it with its clock.
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &l.Holder, LeaseDurationSeconds: &seconds, RenewTime: &now, LeaseTransitions: &l.Transitions,
		},
	}
	what, request := "update leases", c.rest.Put().AbsPath(c.path(leases), LeaseName)
	if l.Version == "" {
		what, request = "create leases", c.rest.Post().AbsPath(c.path(leases))
	}
	var written coordinationv1.Lease
	request = request.SetHeader("Content-Type", "application/json").Body(encode(lease))
	if err := c.do(ctx, what, c.leaseName(), request, &written); err != nil {
		return nil, err
	}
	return lockOf(&written), nil
}

// RemoveLock removes the lock if it is as it was read.
func (c *Client) RemoveLock(ctx context.Context, l *fleet.Lock) error {
	uid := types.UID(l.UID)
	options := &metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &l.Version},
	}
	request := c.rest.Delete().AbsPath(c.path(leases), LeaseName).
		SetHeader("Content-Type", "application/json").
		Body(encode(options))
	return c.do(ctx, "delete leases", c.leaseName(), request, nil)
}

func (c *Client) leaseName() string { return c.place.LockNamespace + "/" + LeaseName }

func lockOf(lease *coordinationv1.Lease) *fleet.Lock {
	l := &fleet.Lock{Version: lease.ResourceVersion, UID: string(lease.UID), Annotations: lease.Annotations}
	if lease.Spec.HolderIdentity != nil {
		l.Holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.LeaseDurationSeconds != nil {
		l.Duration = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	if lease.Spec.LeaseTransitions != nil {
		l.Transitions = *lease.Spec.LeaseTransitions
	}
	return l
}

func encode(object any) []byte {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err) // it has texts, numbers and times
	}
	return data
}
