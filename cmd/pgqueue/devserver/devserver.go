// Package devserver runs the PostgreSQL programs that are installed on this machine.
//
// [StartTemporary] makes a server that lives as long as the calling process and leaves nothing behind; tests use it.
// [Open] joins the development server of the command line: its data stays, and all commands of one user share it.
// Neither ever listens beyond this machine, and neither needs a password: the private folder of the socket is the guard.
package devserver

import (
	"net/url"
	"strconv"
	"strings"
)

// DirEnv names the environment variable that moves the folder of the development server.
const DirEnv = "PGQUEUE_DEV_DIR"

// superuser is the role that initdb creates and that all URLs name.
const superuser = "postgres"

// Options tune a server. The zero value is fine.
type Options struct {
	// Programs to run; the zero value means FindPrograms.
	Programs Programs
	// Dir is the folder to work in. StartTemporary makes its folder in it (default: the system's temporary folder),
	// Open keeps its data in it (default: $PGQUEUE_DEV_DIR, else the user's cache).
	Dir string
	// Settings are server settings by name. Open applies them only when it has to start the server.
	Settings map[string]string
	// TCP makes a temporary server listen on a free port of 127.0.0.1 as well. Open ignores it.
	TCP bool
	// KeepRunning makes Handle.Close leave the server up. StartTemporary ignores it.
	KeepRunning bool
}

// StopMode says how a server goes down.
type StopMode int

const (
	// Fast ends all sessions, writes a checkpoint and stops.
	Fast StopMode = iota
	// Immediate stops without a checkpoint: the next start goes through crash recovery.
	Immediate
)

func (m StopMode) String() string {
	if m == Immediate {
		return "immediate"
	}
	return "fast"
}

// The port is always part of the URL, because PGPORT of the environment would fill the gap.
func socketURL(folder string, port int) string {
	query := url.Values{"host": {folder}, "port": {strconv.Itoa(port)}, "user": {superuser}}
	// Neither pgx nor libpq reads a plus as a space.
	return "postgres:///" + superuser + "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
}

func tcpURL(port int) string {
	return "postgres://" + superuser + "@127.0.0.1:" + strconv.Itoa(port) + "/" + superuser + "?sslmode=disable"
}

func (o Options) programs() (Programs, error) {
	if o.Programs.Dir == "" {
		return FindPrograms()
	}
	if o.Programs.Major == 0 {
		return inspect(o.Programs.Dir)
	}
	return o.Programs, nil
}
