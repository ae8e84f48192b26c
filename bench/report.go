package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// report is all that a run measured.
type report struct {
	Started time.Time         `json:"started"`
	Seconds float64           `json:"seconds"`
	Quick   bool              `json:"quick"`
	Server  serverInfo        `json:"server"`
	Systems map[string]string `json:"versions"`
	Groups  []group           `json:"groups"`
	Bars    []bar             `json:"bars"`
}

func (r report) writeJSON(name string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}

func (r report) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	r.head(&b)
	for i, g := range r.Groups {
		if i == 0 || r.Groups[i-1].Workload != g.Workload {
			fmt.Fprintf(&b, "\n## %s\n", g.Workload)
		}
		g.table(&b)
	}
	r.targets(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r report) head(b *strings.Builder) {
	fmt.Fprintf(b, "# Measured %s, PostgreSQL %s, %d cores\n\n", r.Started.UTC().Format("2006-01-02 15:04 MST"), r.Server.Version, r.Server.Cores)
	var versions, settings []string
	for _, module := range slices.Sorted(maps.Keys(r.Systems)) {
		versions = append(versions, module+" "+r.Systems[module])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Server.Settings)) {
		settings = append(settings, name+" = "+r.Server.Settings[name])
	}
	how := "a server of its own"
	if !r.Server.Local {
		how = "the server that was given"
	}
	if r.Quick {
		how += ", --quick"
	}
	fmt.Fprintf(b, "%s. On %s, in %.0f s. %s.\n\n", strings.Join(versions, ", "), how, r.Seconds, strings.Join(settings, ", "))
	b.WriteString("Rates are medians over the rounds with the lowest and the highest; ratios are medians of the ratios of each round. " +
		"WAL and CPU are medians for one task. The counts of every cell were checked in the database.\n")
}

func (g group) table(b *strings.Builder) {
	reference := limit
	if g.Workload == "W3" {
		reference = bareHeldSystem().name
	}
	latency := g.Workload == "W6"
	unit := "tasks/s"
	if latency {
		unit = "p50 ms"
	}
	fmt.Fprintf(b, "\n%s\n\n", g.Name)
	fmt.Fprintf(b, "| | %s | lowest - highest | x bare | x River | WAL bytes | x bare | server us | client us | |\n", unit)
	b.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, v := range g.Variants {
		m, digits := measure(rate), 0
		if latency {
			m, digits = extra("p50_ms"), 2
		}
		bare, river := g.samples(g.counterpart(v.Name, reference)), g.samples(g.counterpart(v.Name, peer))
		values := pick(v.Samples, m)
		fmt.Fprintf(b, "| %s | %s | %s - %s | %s | %s | %s | %s | %s | %s | %s |\n", v.Name,
			number(median(values), digits), number(slices.Min(values), digits), number(slices.Max(values), digits),
			number(ratio(v.Samples, bare, m), 2), number(ratio(v.Samples, river, m), 2),
			number(median(pick(v.Samples, wal)), 0), number(ratio(v.Samples, bare, wal), 2),
			number(median(pick(v.Samples, server)), 0), number(median(pick(v.Samples, client)), 0), g.remarks(v))
	}
}

// counterpart is the name of the variant of another system that does the same as this one.
func (g group) counterpart(name, system string) string {
	if _, state, ok := strings.Cut(name, ", "); ok && g.samples(system+", "+state) != nil {
		return system + ", " + state
	}
	return system
}

// remarks are the figures that only some workloads have.
func (g group) remarks(v variant) string {
	var list []string
	say := func(format string, value float64) {
		if !math.IsNaN(value) {
			list = append(list, fmt.Sprintf(format, value))
		}
	}
	switch g.Workload {
	case "W3":
		say("%.0f %% of the calls made a task", 100*median(pick(v.Samples, extra("created_share"))))
	case "W5":
		say("worker's peak memory %.0f MB", median(pick(v.Samples, extra("worker_peak_bytes")))/1e6)
	case "W6":
		say("p99 %.2f ms", median(pick(v.Samples, extra("p99_ms"))))
	case "W10":
		say("p99 before %.2f ms", median(pick(v.Samples, extra("baseline_p99_ms"))))
		say("beside the pruners %.2f ms", median(pick(v.Samples, extra("p99_ms"))))
	case "W7":
		say("keeps %.0f %%", 100*ratio(v.Samples, g.samples(v.Name+alone), extra("handlers_per_second")))
	case "W8":
		say("last window %.0f/s", median(pick(v.Samples, lastWindow)))
		say("keeps %.0f %%", 100*ratio(v.Samples, g.samples(v.Name+alone), lastWindow))
	case "W9":
		system, _, _ := strings.Cut(v.Name, ", ")
		low, _ := growth(g, system)
		say("%.0f %% of the rate with the fewest rows", 100*ratio(v.Samples, low, rate))
	}
	return strings.Join(list, ", ")
}

func (r report) targets(b *strings.Builder) {
	if len(r.Bars) == 0 {
		return
	}
	b.WriteString("\n## Targets\n\n| | | target | measured | |\n| --- | --- | --- | ---: | --- |\n")
	for _, t := range r.Bars {
		measured, verdict := "-", "not measured"
		if t.Measured != nil {
			measured, verdict = number(*t.Measured, 2), "missed"
			if t.Met {
				verdict = "met"
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", t.Workload, t.What, t.Target, measured, verdict)
	}
}

func number(value float64, digits int) string {
	if math.IsNaN(value) {
		return "-"
	}
	text := fmt.Sprintf("%.*f", digits, value)
	whole, fraction, _ := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return sign + whole
}
