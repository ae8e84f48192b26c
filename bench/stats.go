package main

import (
	"math"
	"slices"
)

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile of sorted values: the smallest that at least so many of a hundred do not exceed.
func percentile(sorted []float64, p int) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// measure picks one figure of a sample; NaN where there is none.
type measure func(s sample) float64

func rate(s sample) float64   { return s.Rate }
func wal(s sample) float64    { return s.WALBytes }
func client(s sample) float64 { return s.ClientMicros }

func server(s sample) float64 {
	if s.ServerMicros == nil {
		return math.NaN()
	}
	return *s.ServerMicros
}

func extra(name string) measure {
	return func(s sample) float64 {
		if v, ok := s.Extra[name]; ok {
			return v
		}
		return math.NaN()
	}
}

// lastWindow is the rate of the last tasks of a long run.
func lastWindow(s sample) float64 {
	if len(s.Windows) == 0 {
		return math.NaN()
	}
	return s.Windows[len(s.Windows)-1]
}

func pick(samples []sample, m measure) []float64 {
	var values []float64
	for _, s := range samples {
		if v := m(s); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return values
}

// ratio is the median of the ratios of each round, so that what drifts from round to round cancels out.
func ratio(a, b []sample, m measure) float64 {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		if r := m(a[i]) / m(b[i]); !math.IsNaN(r) && !math.IsInf(r, 0) {
			ratios = append(ratios, r)
		}
	}
	return median(ratios)
}

// samples returns those of a variant, nil if the group has none of that name.
func (g group) samples(name string) []sample {
	for _, v := range g.Variants {
		if v.Name == name {
			return v.Samples
		}
	}
	return nil
}
