package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// packageLog is the log of a package manager.
type packageLog struct {
	path  string
	parse func(line string) (packageEvent, bool)
}

// packageEvent is one line of it.
type packageEvent struct {
	Time    string `json:"time"`
	Action  string `json:"action"`
	Package string `json:"package"`
	Version string `json:"version,omitempty"`
}

// read takes the last lines of the log.
func (l packageLog) read(limit int) (input, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return input{}, err
	}
	in := input{
		name: l.path, task: "package_event", redeliver: 10,
		keys: "active key: the package; window key: the line",
	}
	var failed error
	err = lines(file, func(line []byte) bool {
		parsed, ok := l.parse(strings.ToValidUTF8(string(line), "\ufffd"))
		if !ok {
			in.skipped++
			return true
		}
		payload, err := json.Marshal(parsed)
		if err != nil {
			failed = err
			return false
		}
		in.events = append(in.events, event{
			payload: payload, activeKey: fitKey("pkg:" + parsed.Package),
			windowKey: fitKey(strings.Join([]string{parsed.Time, parsed.Action, parsed.Package, parsed.Version}, " ")),
		})
		return true
	})
	if err := errors.Join(err, failed, file.Close()); err != nil {
		return input{}, fmt.Errorf("%s: %w", l.path, err)
	}
	if more := len(in.events) - limit; limit > 0 && more > 0 {
		in.events = in.events[more:]
	}
	return in, nil
}

var dpkgActions = map[string]bool{
	"install": true, "upgrade": true, "configure": true, "trigproc": true, "disappear": true, "remove": true, "purge": true,
}

// parseDpkg reads "2025-06-24 14:36:25 status unpacked libc6:amd64 2.36-9" and "... install libc6:amd64 <none> 2.36-9".
func parseDpkg(line string) (e packageEvent, ok bool) {
	f := strings.Fields(line)
	if len(f) < 5 {
		return e, false
	}
	e.Time = f[0] + " " + f[1]
	if _, err := time.Parse(time.DateTime, e.Time); err != nil {
		return e, false
	}
	switch {
	case f[2] == "status" && len(f) == 6:
		e.Action, e.Package, e.Version = "status "+f[3], f[4], f[5]
	case dpkgActions[f[2]] && len(f) == 6:
		e.Action, e.Package, e.Version = f[2], f[3], f[4]+" "+f[5]
	default:
		return e, false
	}
	return e, true
}

var pacmanActions = map[string]bool{
	"installed": true, "reinstalled": true, "upgraded": true, "downgraded": true, "removed": true,
}

// parsePacman reads "[2025-06-24T14:36:25+0200] [ALPM] upgraded glibc (2.40-1 -> 2.41-1)".
func parsePacman(line string) (e packageEvent, ok bool) {
	f := strings.Fields(line)
	if len(f) < 5 || f[1] != "[ALPM]" || !pacmanActions[f[2]] {
		return e, false
	}
	stamp, opened := strings.CutPrefix(f[0], "[")
	stamp, closed := strings.CutSuffix(stamp, "]")
	if !opened || !closed || !isStamp(stamp) {
		return e, false
	}
	version, opened := strings.CutPrefix(strings.Join(f[4:], " "), "(")
	version, closed = strings.CutSuffix(version, ")")
	if !opened || !closed {
		return e, false
	}
	return packageEvent{Time: stamp, Action: f[2], Package: f[3], Version: version}, true
}

var dnfActions = map[string]bool{
	"Installed:": true, "Upgraded:": true, "Upgrade:": true, "Downgraded:": true, "Downgrade:": true, "Reinstall:": true,
	"Reinstalled:": true, "Erase:": true, "Erased:": true, "Cleanup:": true, "Obsoleted:": true, "Obsoleting:": true,
}

// parseDnf reads "2025-06-24T14:36:25+0200 SUBDEBUG Installed: glibc-common-2.40-1.fc41.x86_64".
func parseDnf(line string) (e packageEvent, ok bool) {
	f := strings.Fields(line)
	if len(f) != 4 || !dnfActions[f[2]] || !isStamp(f[0]) {
		return e, false
	}
	full := f[3]
	if i := strings.LastIndexByte(full, '.'); i > 0 {
		full = full[:i] // the architecture
	}
	release := strings.LastIndexByte(full, '-')
	if release <= 0 {
		return e, false
	}
	version := strings.LastIndexByte(full[:release], '-')
	if version <= 0 {
		return e, false
	}
	return packageEvent{Time: f[0], Action: strings.ToLower(strings.TrimSuffix(f[2], ":")), Package: full[:version], Version: full[version+1:]}, true
}

func isStamp(text string) bool {
	for _, layout := range []string{"2006-01-02T15:04:05-0700", time.RFC3339} {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	return false
}
