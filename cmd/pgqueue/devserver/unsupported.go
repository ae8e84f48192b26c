//go:build !unix

package devserver

import (
	"context"
	"errors"
)

var errUnsupported = errors.New("the development server needs a Unix system; set DATABASE_URL to use a server that runs already")

// Server exists here only so that callers compile.
type Server struct{ URL, TCPURL string }

// StartTemporary always fails on this system.
func StartTemporary(context.Context, Options) (*Server, error) { return nil, errUnsupported }

// PID returns 0.
func (s *Server) PID() int { return 0 }

// LogFile returns nothing.
func (s *Server) LogFile() string { return "" }

// Start always fails on this system.
func (s *Server) Start(context.Context) error { return errUnsupported }

// Halt always fails on this system.
func (s *Server) Halt(context.Context, StopMode) error { return errUnsupported }

// Restart always fails on this system.
func (s *Server) Restart(context.Context, StopMode) error { return errUnsupported }

// Stop always fails on this system.
func (s *Server) Stop(context.Context) error { return errUnsupported }

// Handle exists here only so that callers compile.
type Handle struct{ URL, DataDir, LogFile string }

// Open always fails on this system.
func Open(context.Context, Options) (*Handle, error) { return nil, errUnsupported }

// PID returns 0.
func (h *Handle) PID() int { return 0 }

// Close always fails on this system.
func (h *Handle) Close() error { return errUnsupported }
