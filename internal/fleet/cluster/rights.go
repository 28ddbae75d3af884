package cluster

// Scope says where a right counts.
type Scope string

// The scopes.
const (
	// OfCluster is for a ClusterRole.
	OfCluster Scope = "cluster"
	// OfRelease is for a Role in the namespace of the release.
	OfRelease Scope = "release"
	// OfLock is for a Role in the namespace of the Lease.
	OfLock Scope = "lock"
)

// Right is a right that the dispatcher has.
type Right struct {
	Scope           Scope
	Group, Resource string
	Verb            string
	// Name is the only object that it is about; empty for all. A right to create cannot have one.
	Name string
}

// LeaseName is the name of the Lease that is the lock.
const LeaseName = "node-partition-roll"

// Rights returns all rights of the dispatcher, and no other. It may patch nodes as RBAC sees it; a
// ValidatingAdmissionPolicy has to leave it no more than their labels. It makes pods by Jobs of its
// namespace alone, but these may read its Secrets and write to hosts: the policies do not compare
// their arguments, environment and mount points.
func Rights(p Place) []Right {
	const core, batch, coordination = "", "batch", "coordination.k8s.io"
	return []Right{
		{OfCluster, core, "nodes", "list", ""},
		{OfCluster, core, "nodes", "watch", ""},
		{OfCluster, core, "nodes", "patch", ""},
		{OfRelease, batch, "jobs", "list", ""},
		{OfRelease, batch, "jobs", "watch", ""},
		{OfRelease, batch, "jobs", "create", ""},
		{OfRelease, batch, "jobs", "deletecollection", ""},
		{OfRelease, core, "pods", "list", ""},
		{OfRelease, core, "pods", "watch", ""},
		{OfRelease, core, "configmaps", "get", p.ConfigMap},
		{OfLock, coordination, "leases", "create", ""},
		{OfLock, coordination, "leases", "get", LeaseName},
		{OfLock, coordination, "leases", "update", LeaseName},
		{OfLock, coordination, "leases", "delete", LeaseName},
	}
}
