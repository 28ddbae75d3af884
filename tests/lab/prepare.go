package lab

import (
	"context"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Wanted lists the things that Prepare makes.
type Wanted struct {
	// Flavours lists names of flavours.
	Flavours []string
	// ControlPlane includes the programs of control planes.
	ControlPlane bool
}

// Everything returns the default: the flavours of Flavours, and a control plane.
func Everything() Wanted {
	w := Wanted{ControlPlane: true}
	for _, f := range Flavours() {
		w.Flavours = append(w.Flavours, f.Name)
	}
	return w
}

// Prepare makes everything expensive and keeps it in the cache. A second call takes the time of a
// few hashes. Prepare reports the steps that take long to progress, with the seconds that each
// took.
func Prepare(ctx context.Context, w Wanted, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	flavours := make([]Flavour, 0, len(w.Flavours))
	for _, name := range w.Flavours {
		f, err := FlavourByName(name)
		if err != nil {
			return err
		}
		flavours = append(flavours, f)
	}
	c, missing, err := hostedCache(flavours)
	if err != nil {
		return err
	}
	if _, err := c.makeAll(ctx, missing, flavours, w.ControlPlane, c.withSnapshot, progress); err != nil {
		return err
	}
	return c.pruned()
}

// prepare is Prepare for a node of a flavour that is about to start.
func prepare(ctx context.Context, flavour string, progress func(string)) (cache, image, error) {
	if progress == nil {
		progress = func(string) {}
	}
	f, err := FlavourByName(flavour)
	if err != nil {
		return cache{}, image{}, err
	}
	c, missing, err := hostedCache([]Flavour{f})
	if err != nil {
		return cache{}, image{}, err
	}
	images, err := c.makeAll(ctx, missing, []Flavour{f}, false, c.image, progress)
	if err != nil {
		return cache{}, image{}, err
	}
	return c, images[0], c.pruned()
}

// hostedCache returns this user's cache on a machine that can hold nodes of these flavours, and the
// Debian packages that the machine lacks.
func hostedCache(flavours []Flavour) (c cache, missing []string, err error) {
	if c, err = defaultCache(); err != nil {
		return cache{}, nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return cache{}, nil, fmt.Errorf("cache folder: %w", err)
	}
	missing, err = checkHost(slices.ContainsFunc(flavours, Flavour.hasC))
	return c, missing, err
}

func (c cache) pruned() error {
	if err := c.prune(); err != nil {
		return fmt.Errorf("remove old cache entries: %w", err)
	}
	return nil
}

// part is an input of images. It is made once for all that need it.
type part struct {
	name string
	make func(ctx context.Context) error
	made chan struct{} // closed when it is made
}

// parts holds the inputs of several flavours and of a control plane.
type parts struct {
	// kubernetes lists the programs of Kubernetes. They are built one after the other: the second
	// finds the objects of the first, and beside it would compile them once more. The kubelet comes
	// first, because every image waits for it.
	kubernetes []*part
	// programs lists all others. They share next to nothing with Kubernetes. Beside it they keep the
	// second core busy while one of the two links.
	programs []*part
	// debian is downloaded, and then unpacked and configured by one core.
	debian []*part
}

const (
	// maxDebian is the number of installations of Debian that run side by side.
	maxDebian = 2
	// maxImages is the number of images that are made side by side. Each boots with two emulated CPUs,
	// or writes a disk.
	maxImages = 2
)

// find returns the part of a name, and appends it to its list if it is missing.
func find(list *[]*part, name string, build func(ctx context.Context) error) *part {
	for _, p := range *list {
		if p.name == name {
			return p
		}
	}
	p := &part{name: name, make: build, made: make(chan struct{})}
	*list = append(*list, p)
	return p
}

// add adds a flavour's parts to the lists and returns them.
func (ps *parts) add(c cache, f Flavour, progress func(string)) ([]*part, error) {
	key, err := debianKey(f)
	if err != nil {
		return nil, err
	}
	all := []*part{
		find(
			&ps.debian,
			withArch("qemu", f.Arch),
			func(ctx context.Context) error { _, err := c.qemu(ctx, f.Arch, progress); return err },
		),
		find(
			&ps.debian,
			f.Release+"-"+string(key),
			func(ctx context.Context) error { _, err := c.debian(ctx, f, progress); return err },
		),
	}
	for _, p := range f.allPrograms() {
		all = append(all, ps.addProgram(c, p, progress))
	}
	return all, nil
}

func (ps *parts) addProgram(c cache, p Program, progress func(string)) *part {
	list := &ps.programs
	if p.ofKubernetes() {
		list = &ps.kubernetes
	}
	return find(list, p.cacheName(), func(ctx context.Context) error { _, err := c.build(ctx, p, progress); return err })
}

// makeImage makes the image of a flavour whose parts are made.
type makeImage func(ctx context.Context, f Flavour, progress func(string)) (image, error)

// withSnapshot makes the image of a flavour, and the snapshot of a node that has booted from it, if
// its nodes can be restored.
func (c cache) withSnapshot(ctx context.Context, f Flavour, progress func(string)) (image, error) {
	img, err := c.image(ctx, f, progress)
	if err != nil || !f.restorable() {
		return img, err
	}
	_, err = c.snapshot(ctx, f, img, progress)
	return img, err
}

// makeAll makes the images of flavours, and the programs of a control plane. It runs compilers
// beside installations of Debian, and makes each image as soon as its parts are made. It installs
// the missing packages on this machine before it makes what may need them.
func (c cache) makeAll(
	ctx context.Context,
	missing []string,
	flavours []Flavour,
	controlPlane bool,
	build makeImage,
	progress func(string),
) ([]image, error) {
	var ps parts
	partsOf := make([][]*part, len(flavours))
	for i, f := range flavours {
		var err error
		if partsOf[i], err = ps.add(c, f, progress); err != nil {
			return nil, err
		}
	}
	if controlPlane {
		find(&ps.debian, "etcd", func(ctx context.Context) error { _, err := c.etcd(ctx, progress); return err })
		ps.addProgram(c, controlPlanePrograms(), progress)
		ps.addProgram(c, schedulerProgram(), progress)
	}
	group, ctx := errgroup.WithContext(ctx)
	inOrder(ctx, group, ps.kubernetes, 1) // needs none of the packages
	group.Go(func() error {
		if err := installOnHost(ctx, missing, progress); err != nil {
			return err
		}
		inOrder(ctx, group, ps.programs, 1)
		inOrder(ctx, group, ps.debian, maxDebian)
		return nil
	})
	images := make([]image, len(flavours))
	free := make(chan struct{}, maxImages)
	for i, f := range flavours {
		group.Go(func() error {
			for _, p := range partsOf[i] {
				select {
				case <-p.made:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			free <- struct{}{}
			defer func() { <-free }()
			var err error
			if images[i], err = build(ctx, f, func(line string) { progress(ofFlavour(f, line)) }); err != nil {
				return fmt.Errorf("prepare %s: %w", f.Name, err)
			}
			return nil
		})
	}
	return images, group.Wait()
}

// inOrder makes the parts of a list in their order, atATime of them at a time.
func inOrder(ctx context.Context, group *errgroup.Group, list []*part, atATime int) {
	group.Go(func() error {
		side, ctx := errgroup.WithContext(ctx)
		side.SetLimit(atATime)
		for _, p := range list {
			side.Go(func() error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err := p.make(ctx); err != nil {
					return fmt.Errorf("prepare %s: %w", p.name, err)
				}
				close(p.made)
				return nil
			})
		}
		return side.Wait()
	})
}
