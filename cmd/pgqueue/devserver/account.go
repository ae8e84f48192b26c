//go:build unix

package devserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who runs the server programs. PostgreSQL refuses to run as root.
type account struct {
	uid, gid int
	other    bool // not us: we are root and have to change
}

func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	var failed error
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		uid, uidErr := strconv.Atoi(found.Uid)
		gid, gidErr := strconv.Atoi(found.Gid)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return account{}, fmt.Errorf("account %s: %w", name, err)
		}
		return account{uid: uid, gid: gid, other: true}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root and there is no account for it: %w", failed)
}

// accountOf keeps to the owner of an existing data folder, whichever account is the first choice by now.
func accountOf(data string) (account, error) {
	who, err := serverAccount()
	if err != nil || !who.other {
		return who, err
	}
	info, err := os.Lstat(data)
	if errors.Is(err, fs.ErrNotExist) {
		return who, nil
	}
	if err != nil {
		return account{}, err
	}
	if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 0 {
		who.uid, who.gid = int(owner.Uid), int(owner.Gid)
	}
	return who, nil
}

func (a account) credential() *syscall.Credential {
	if !a.other {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// mkdir makes a folder that only the account may enter; one that exists must be exactly that already.
func (a account) mkdir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		if a.other {
			return os.Lchown(dir, a.uid, a.gid)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != a.uid {
		if owner == 0 && a.other { // we were killed between making and giving away
			return os.Lchown(dir, a.uid, a.gid)
		}
		return fmt.Errorf("%s belongs to user %d, not to user %d", dir, owner, a.uid)
	}
	if info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is open to others (mode %o)", dir, info.Mode().Perm())
	}
	return nil
}

// canEnter tells whether the account may walk to the folder. For ourselves the next system call tells.
func (a account) canEnter(dir string) error {
	if !a.other {
		return nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for step := dir; ; step = filepath.Dir(step) {
		info, err := os.Stat(step)
		if err != nil {
			return err
		}
		owner, mode, bit := info.Sys().(*syscall.Stat_t), info.Mode().Perm(), fs.FileMode(0o001)
		switch {
		case int(owner.Uid) == a.uid:
			bit = 0o100
		case int(owner.Gid) == a.gid:
			bit = 0o010
		}
		if mode&bit == 0 {
			return fmt.Errorf("user %d, who runs the server, may not enter %s", a.uid, step)
		}
		if step == filepath.Dir(step) {
			return nil
		}
	}
}
