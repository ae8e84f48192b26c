package devserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// OldestMajor is the oldest PostgreSQL that pgqueue works with.
const OldestMajor = 14

// ErrNoPrograms is what errors.Is finds in a NotFoundError.
var ErrNoPrograms = errors.New("no PostgreSQL server programs found")

// Programs is a folder with the server programs of one PostgreSQL version.
type Programs struct {
	Dir     string
	Major   int
	Version string // as the server prints it, like "17.2" or "18beta1"
}

// Path returns the path of one program.
func (p Programs) Path(name string) string { return filepath.Join(p.Dir, name) }

// NotFoundError says where FindPrograms looked and what to install.
type NotFoundError struct {
	// Looked has one line for each place, with the reason where something was there.
	Looked []string
}

func (e *NotFoundError) Error() string {
	return ErrNoPrograms.Error() + fmt.Sprintf(` (initdb, postgres and pg_ctl of PostgreSQL %d or newer in one folder).
Looked in:
  %s
Install PostgreSQL:
  Debian, Ubuntu: apt install postgresql
  Fedora, RHEL:   dnf install postgresql-server
  macOS:          brew install postgresql
or set PGBIN to the folder of the programs, or set DATABASE_URL to use a server that runs already.`,
		OldestMajor, strings.Join(e.Looked, "\n  "))
}

// Is makes errors.Is(err, ErrNoPrograms) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNoPrograms }

// FindPrograms looks in $PGBIN, then along PATH, then takes the newest of the usual folders.
// A PGBIN that is set and holds no programs is an error: who sets it does not want another version.
func FindPrograms() (Programs, error) {
	return search{
		pgbin: os.Getenv("PGBIN"),
		path:  os.Getenv("PATH"),
		patterns: []string{
			"/usr/lib/postgresql/*/bin",
			"/usr/pgsql-*/bin",
			"/opt/homebrew/opt/postgresql*/bin",
			"/usr/local/opt/postgresql*/bin",
		},
	}.find()
}

type search struct {
	pgbin    string
	path     string
	patterns []string
}

func (s search) find() (Programs, error) {
	missing := &NotFoundError{}
	if s.pgbin != "" {
		found, err := inspect(s.pgbin)
		if err != nil {
			missing.Looked = append(missing.Looked, fmt.Sprintf("$PGBIN: %v", err))
			return Programs{}, missing
		}
		return found, nil
	}
	missing.Looked = append(missing.Looked, "$PGBIN (not set)", "PATH: "+s.path)
	for _, dir := range filepath.SplitList(s.path) {
		// PATH often has links to a folder that holds more than the link's own.
		initdb, err := filepath.EvalSymlinks(filepath.Join(dir, "initdb"))
		if err != nil {
			continue
		}
		found, err := inspect(filepath.Dir(initdb))
		if err == nil {
			return found, nil
		}
		missing.Looked = append(missing.Looked, err.Error())
	}
	var newest Programs
	for _, pattern := range s.patterns {
		missing.Looked = append(missing.Looked, pattern)
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return Programs{}, fmt.Errorf("search %s: %w", pattern, err)
		}
		for _, dir := range dirs {
			found, err := inspect(dir)
			if err != nil {
				missing.Looked = append(missing.Looked, err.Error())
				continue
			}
			if found.Major > newest.Major {
				newest = found
			}
		}
	}
	if newest.Dir == "" {
		return Programs{}, missing
	}
	return newest, nil
}

var versionPattern = regexp.MustCompile(`\) ((\d+)\S*)`)

// inspect asks the programs themselves for their version: a folder's name may not tell it.
func inspect(dir string) (Programs, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Programs{}, err
	}
	for _, name := range []string{"initdb", "postgres", "pg_ctl"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return Programs{}, fmt.Errorf("%s: no usable %s", dir, name)
		}
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return Programs{}, fmt.Errorf("%s: postgres --version: %w", dir, err)
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return Programs{}, fmt.Errorf("%s: postgres --version says %q", dir, strings.TrimSpace(string(out)))
	}
	major, err := strconv.Atoi(string(match[2]))
	if err != nil {
		return Programs{}, fmt.Errorf("%s: version: %w", dir, err)
	}
	if major < OldestMajor {
		return Programs{}, fmt.Errorf("%s: PostgreSQL %s is too old", dir, match[1])
	}
	return Programs{Dir: dir, Major: major, Version: string(match[1])}, nil
}
