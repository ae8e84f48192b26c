//go:build unix

package devserver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// temporaryBase picks a folder that leaves room for the socket's path and that the server's account may enter.
func temporaryBase(wanted string, who account) (string, error) {
	candidates := []string{wanted}
	if wanted == "" {
		candidates = []string{os.TempDir(), "/tmp", "/var/tmp"}
	}
	var failed error
	for _, base := range candidates {
		err := usableBase(base, who)
		if err == nil {
			return filepath.Abs(base)
		}
		failed = errors.Join(failed, err)
	}
	return "", fmt.Errorf("no folder for a temporary server: %w", failed)
}

func usableBase(base string, who account) error {
	base, err := filepath.Abs(base)
	if err != nil {
		return err
	}
	if info, err := os.Stat(base); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", base)
	}
	if problem := socketProblem(filepath.Join(base, folderPrefix+"4294967295", "s"), 65535); problem != "" {
		return fmt.Errorf("%s %s", base, problem)
	}
	return who.canEnter(base)
}

func socketPath(folder string, port int) string {
	return filepath.Join(folder, ".s.PGSQL."+strconv.Itoa(port))
}

// socketProblem says why clients could not reach a socket in the folder, "" when they can.
func socketProblem(folder string, port int) string {
	switch {
	case len(socketPath(folder, port)) > maxSocketPath:
		return "is too long a path for a socket"
	case strings.Contains(folder, ","):
		return "has a comma, which clients take for the end of a host's name"
	}
	return ""
}

// lockFolder marks the folder as ours for as long as we live. The lock is taken before the file has its name, so that
// no sweep finds it free.
func lockFolder(dir string) (*os.File, error) {
	name := filepath.Join(dir, lockName)
	file, err := openLock(name + ".new")
	if err != nil {
		return nil, err
	}
	if _, err := tryLock(file, syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := os.Rename(name+".new", name); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// sweep removes the folders of our user whose process was killed: their lock is free.
func sweep(base string) error {
	dirs, err := filepath.Glob(filepath.Join(base, folderPrefix+"*"))
	if err != nil {
		return err
	}
	var failed error
	for _, dir := range dirs {
		if strings.Trim(filepath.Base(dir)[len(folderPrefix):], "0123456789") != "" {
			continue
		}
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			continue // gone by now, or not ours
		}
		failed = errors.Join(failed, sweepOne(dir))
	}
	return failed
}

func sweepOne(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // just being made, or somebody else's
	}
	if err != nil {
		return err
	}
	free, err := tryLock(file, syscall.LOCK_EX)
	if free {
		// A server that is still going down may add a file while we remove.
		for try := 0; try < 20; try++ {
			if err = os.RemoveAll(dir); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return errors.Join(err, file.Close())
}

type pidFile struct {
	pid   int
	ready bool
}

// readPidFile reads what the postmaster tells about itself; a file that is missing or half written tells nothing yet.
func readPidFile(data string) pidFile {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return pidFile{}
	}
	lines := bytes.Split(text, []byte("\n"))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(lines[0])))
	if err != nil || len(lines) < 8 {
		return pidFile{}
	}
	return pidFile{pid: pid, ready: string(bytes.TrimSpace(lines[7])) == "ready"}
}

// configText writes settings in the form of postgresql.conf.
func configText(settings map[string]string) (string, error) {
	var text strings.Builder
	for _, name := range sortedNames(settings) {
		if err := checkSetting(name, settings[name]); err != nil {
			return "", err
		}
		value := strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(settings[name])
		fmt.Fprintf(&text, "%s = '%s'\n", name, value)
	}
	return text.String(), nil
}

func sortedNames(settings map[string]string) []string {
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func checkSetting(name, value string) error {
	if name == "" || strings.ContainsAny(name, " \t\r\n='#\"\\") {
		return fmt.Errorf("server setting %q: not a name", name)
	}
	if strings.ContainsAny(value, "\r\n\x00") {
		return fmt.Errorf("server setting %s: the value has more than one line", name)
	}
	return nil
}

// quoteListItem quotes one element of a setting that is a list, like the folders of the sockets.
func quoteListItem(item string) string { return `"` + strings.ReplaceAll(item, `"`, `""`) + `"` }
