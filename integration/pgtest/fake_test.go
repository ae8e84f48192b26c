package pgtest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// fakeTB records failures instead of failing.
type fakeTB struct {
	testing.TB
	messages []string
	failed   bool
}

func (f *fakeTB) Helper()      {}
func (f *fakeTB) Failed() bool { return f.failed }
func (f *fakeTB) FailNow()     { f.failed = true; runtime.Goexit() }
func (f *fakeTB) Errorf(format string, args ...any) {
	f.failed = true
	f.messages = append(f.messages, fmt.Sprintf(format, args...))
}
func (f *fakeTB) Fatalf(format string, args ...any) { f.Errorf(format, args...); f.FailNow() }

// fails checks that work fails its test with a message that has want in it.
func fails(t *testing.T, want string, work func(testing.TB)) {
	t.Helper()
	fake := &fakeTB{TB: t}
	done := make(chan struct{})
	go func() { // Fatalf ends the goroutine
		defer close(done)
		work(fake)
	}()
	<-done
	if text := strings.Join(fake.messages, "\n"); !fake.failed || !strings.Contains(text, want) {
		t.Errorf("failed: %v, with %q; want %q", fake.failed, text, want)
	}
}
