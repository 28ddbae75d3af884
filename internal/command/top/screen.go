package top

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"nodepartition/internal/command/status"
	"nodepartition/internal/oneline"
	"nodepartition/internal/samples"
)

// sample is a step to the next sample, however near.
const sample = time.Nanosecond

// Screen shows the node on a terminal until a person ends it, or ctx does.
func Screen(ctx context.Context, s Source, in io.Reader, out io.Writer, options ...tea.ProgramOption) error {
	program := tea.NewProgram(
		&screen{ctx: ctx, source: s, width: 80, height: 24},
		append([]tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out)}, options...)...,
	)
	_, err := program.Run()
	if ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		err = nil // it was asked to end
	}
	return err
}

// screen is the state of the screen.
type screen struct {
	ctx    context.Context
	source Source

	width, height, scroll int
	now                   scene
	// problem is the reason why the last reading failed.
	problem string

	// times has the ends of the samples of the history, and at is the position: len(times) is now.
	history samples.History
	times   []time.Time
	at      int
	// reading means that the history is being read, and lacking says why there is none.
	reading bool
	lacking string
}

// The messages of the screen.
type (
	statusRead struct {
		status status.Status
		err    error
	}
	historyRead struct {
		history samples.History
		err     error
		// step is the step that the history was read for.
		step time.Duration
	}
	// due says that the status is to be read again.
	due struct{}
)

// Init reads the status.
func (m *screen) Init() tea.Cmd { return m.read }

func (m *screen) read() tea.Msg {
	s, err := m.source.Status(m.ctx)
	return statusRead{s, err}
}

// Update follows keys, the size of the terminal, and what was read.
func (m *screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	case statusRead:
		m.problem = ""
		if msg.err != nil {
			m.problem = msg.err.Error()
		} else {
			m.now = live(msg.status)
		}
		return m, tea.Tick(m.source.Interval, func(time.Time) tea.Msg { return due{} })
	case due:
		return m, m.read
	case historyRead:
		m.entered(msg)
	}
	return m, nil
}

// press follows a key.
func (m *screen) press(key string) tea.Cmd {
	m.lacking = ""
	switch key {
	case "q", "esc", "ctrl+c":
		return tea.Quit
	case "left":
		return m.step(-sample)
	case "right":
		return m.step(sample)
	case "pgup":
		return m.step(-time.Hour)
	case "pgdown":
		return m.step(time.Hour)
	case "end":
		m.at, m.scroll, m.reading = len(m.times), 0, false
	case "up":
		m.scroll = max(0, min(m.scroll, hidden(m.scene(), m.width, m.height))-1)
	case "down":
		m.scroll = min(m.scroll+1, hidden(m.scene(), m.width, m.height))
	}
	return nil
}

// step goes through the history by a duration. The first step back from now reads it.
func (m *screen) step(by time.Duration) tea.Cmd {
	if m.at < len(m.times) {
		m.move(by)
		return nil
	}
	if by > 0 {
		m.reading = false // back to the present, before it was left
	}
	if by > 0 || m.reading {
		return nil
	}
	m.reading = true
	return func() tea.Msg {
		h, err := m.source.History(m.ctx)
		return historyRead{h, err, by}
	}
}

// entered begins to show a history, unless a person has returned to the present.
func (m *screen) entered(read historyRead) {
	if !m.reading {
		return
	}
	m.reading = false
	if read.err != nil {
		m.lacking = read.err.Error()
		return
	}
	m.history, m.times = read.history, nil
	for _, s := range read.history.Between(time.Time{}, time.Now()) {
		m.times = append(m.times, s.Time)
	}
	m.at = len(m.times)
	if len(m.times) == 0 {
		m.lacking = "the history has no sample yet"
		return
	}
	m.at--
	if read.step < -sample { // the newest sample is the first step
		m.move(read.step)
	}
}

// move moves by a duration, at least by one sample, and not beyond the ends.
func (m *screen) move(by time.Duration) {
	target := m.times[m.at].Add(by)
	if by < 0 {
		for m.at > 0 {
			if m.at--; !m.times[m.at].After(target) {
				break
			}
		}
		return
	}
	for m.at < len(m.times) {
		if m.at++; m.at < len(m.times) && !m.times[m.at].Before(target) {
			break
		}
	}
}

// scene returns what is shown.
func (m *screen) scene() scene {
	if m.at < len(m.times) {
		return past(m.history, m.times[m.at])
	}
	v := m.now
	if m.problem != "" {
		v.Notes = append([]note{{m.problem, true}}, v.Notes...)
	}
	return v
}

// View draws the screen.
func (m *screen) View() tea.View {
	hint := keys
	if m.lacking != "" {
		hint = oneline.Terminal(m.lacking)
	}
	all := []string{"reading the node"}
	if v := m.scene(); !v.At.IsZero() || m.problem != "" {
		all = frame(v, m.width, m.height, m.scroll, hint)
	}
	view := tea.NewView(strings.Join(all, "\n"))
	view.AltScreen = true
	view.WindowTitle = "node-partition top"
	return view
}
