package lab

// Made reports whether the disk of a flavour's nodes is made.
func Made(flavour string) (bool, error) {
	f, err := FlavourByName(flavour)
	if err != nil {
		return false, err
	}
	c, err := defaultCache()
	if err != nil {
		return false, err
	}
	sources, err := sourcesDir()
	if err != nil {
		return false, err
	}
	e, err := c.entriesOf(f, sources)
	return exists(e.image), err
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
