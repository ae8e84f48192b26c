package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var durationPart = regexp.MustCompile(`^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(w|d|h|ms|m|s|us|µs|ns)`)

// parseDuration reads what time.ParseDuration reads, and days and weeks: 90s, 1h30m, 7d, 2w.
func parseDuration(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a time span such as 500ms, 30s, 10m, 1h30m, 7d or 2w", text)
	rest, negative := strings.CutPrefix(text, "-")
	if rest == "0" {
		return 0, nil
	}
	var total time.Duration
	for first := true; rest != "" || first; first = false {
		part := durationPart.FindStringSubmatch(rest)
		if part == nil {
			return 0, bad
		}
		rest = rest[len(part[0]):]
		var length time.Duration
		var err error
		switch part[2] {
		case "d", "w":
			days, parseErr := strconv.ParseFloat(part[1], 64)
			if part[2] == "w" {
				days *= 7
			}
			if parseErr != nil || days*float64(24*time.Hour) > math.MaxInt64/2 {
				return 0, bad
			}
			length = time.Duration(math.Round(days * float64(24*time.Hour)))
		default:
			if length, err = time.ParseDuration(part[0]); err != nil {
				return 0, bad
			}
		}
		if total += length; total < 0 {
			return 0, bad
		}
	}
	if negative {
		return -total, nil
	}
	return total, nil
}

// duration is a flag that knows days and weeks.
type duration time.Duration

func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *duration) Set(text string) error {
	length, err := parseDuration(text)
	*d = duration(length)
	return err
}

func (d *duration) Type() string { return "duration" }
