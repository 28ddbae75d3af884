package lab

// Step is a long step of Start.
type Step struct {
	// Name is the step's name in the lines of progress, see ReadStep.
	Name string
	// After lists steps that are over before it begins. Steps beside them may run at the same time.
	After []string
}

// Missing returns the steps with which Start makes what the cache lacks for the boot of a flavour's
// node. A step comes after those that it waits for, as far as they are missing, too. Missing does
// not list a snapshot, whose key depends on the accelerator, which takes a try of KVM.
func Missing(flavour string) ([]Step, error) {
	f, err := FlavourByName(flavour)
	if err != nil {
		return nil, err
	}
	c, err := defaultCache()
	if err != nil {
		return nil, err
	}
	return c.missing(f)
}

// missing follows makeAll for one flavour.
func (c cache) missing(f Flavour) ([]Step, error) {
	sources, err := sourcesDir()
	if err != nil {
		return nil, err
	}
	made, err := c.entriesOf(f, sources)
	if err != nil {
		return nil, err
	}
	emulator, err := qemuKey(f.Arch)
	if err != nil {
		return nil, err
	}
	var steps []Step
	var parts []string
	need := func(entry, name string, after ...string) {
		parts = append(parts, name)
		if !exists(entry) {
			steps = append(steps, Step{Name: name, After: after})
		}
	}
	need(c.path("qemu", withArch(qemuRelease, f.Arch), emulator), qemuStep(f.Arch))
	if f.Arch == "" {
		need(made.debian, debianStep(f))
	} else { // see installForeign
		need(made.debian, unpackStep(f), qemuStep(f.Arch))
		need(made.debian, debianStep(f), unpackStep(f))
	}
	// Each list is made one after the other, and beside the other list.
	var kubernetes, others []string
	for i, p := range f.allPrograms() {
		before := &others
		if p.ofKubernetes() {
			before = &kubernetes
		}
		need(made.programs[i], buildStep(p), *before...)
		*before = []string{buildStep(p)}
	}
	if exists(made.image) {
		return steps, nil
	}
	before := parts
	for _, name := range []string{diskStep, importStep, varStep} {
		name = ofFlavour(f, name)
		steps = append(steps, Step{Name: name, After: before})
		before = []string{name}
	}
	return steps, nil
}

// entries are the paths of what a flavour's nodes boot from, made or not.
type entries struct {
	// debian and programs are the parts of image.
	debian   string
	programs []string
	image    string
}

func (c cache) entriesOf(f Flavour, sources string) (entries, error) {
	key, err := debianKey(f)
	if err != nil {
		return entries{}, err
	}
	e := entries{debian: c.path("debian", withArch(f.Release, f.Arch), key)}
	for _, p := range f.allPrograms() {
		if key, err = programKey(p, sources); err != nil {
			return entries{}, err
		}
		e.programs = append(e.programs, c.path("programs", p.cacheName(), key))
	}
	if key, err = imageKey(f, debianTar(e.debian), e.programs); err != nil {
		return entries{}, err
	}
	e.image = c.path("images", f.Name, key)
	return e, nil
}
