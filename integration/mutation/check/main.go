// Command check makes each slip of package mutation in turn and runs the tests that should notice. It fails when one does not.
//
//	go run ./integration/mutation/check [NAME...]
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pgqueue/pgqueue/integration/mutation"
)

const (
	patience = "120s"
	atOnce   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) (err error) {
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pgqueue-mutation-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tests := filepath.Join(dir, "integration.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", tests, "./integration").CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests: %w\n%s", err, out)
	}
	// Tests that fail anyway would notice everything.
	var patterns []string
	for _, m := range chosen {
		patterns = append(patterns, m.Tests)
	}
	slices.Sort(patterns)
	if r := runTests(ctx, tests, "", strings.Join(slices.Compact(patterns), "|")); r.err != nil || r.ran == 0 {
		return fmt.Errorf("without a mutation: %w\n%s", r.problem(), r.output)
	}
	return judge(ctx, tests, chosen)
}

func choose(names []string) ([]mutation.Mutation, error) {
	if len(names) == 0 {
		return mutation.All, nil
	}
	var chosen []mutation.Mutation
	for _, name := range names {
		i := slices.IndexFunc(mutation.All, func(m mutation.Mutation) bool { return m.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no mutation %q", name)
		}
		chosen = append(chosen, mutation.All[i])
	}
	return chosen, nil
}

// judge prints a line for each mutation, in their order.
func judge(ctx context.Context, tests string, chosen []mutation.Mutation) error {
	results := make([]chan result, len(chosen))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, m := range chosen {
		results[i] = make(chan result, 1)
		all.Go(func() {
			slots <- struct{}{}
			results[i] <- runTests(ctx, tests, m.Name, m.Tests)
			<-slots
		})
	}
	defer all.Wait()
	alive := 0
	for i, m := range chosen {
		r := <-results[i]
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case strings.Contains(r.output, mutation.ApplyError) || len(r.failed) == 0 && r.err != nil:
			return fmt.Errorf("%s: %w\n%s", m.Name, r.problem(), r.output)
		case len(r.failed) == 0:
			alive++
			fmt.Printf("%s: SURVIVED %s\n", m.Name, m.Tests)
		default:
			fmt.Printf("%s: killed by %s\n", m.Name, strings.Join(r.failed, ", "))
		}
	}
	fmt.Printf("%d mutations, %d survived\n", len(chosen), alive)
	if alive > 0 {
		return fmt.Errorf("%d mutations survived", alive)
	}
	return nil
}

type result struct {
	ran    int
	failed []string
	output string
	err    error
}

func (r result) problem() error {
	if r.err == nil {
		return errors.New("no test ran")
	}
	return r.err
}

var (
	started = regexp.MustCompile(`(?m)^=== RUN   (Test\w+)$`)
	broken  = regexp.MustCompile(`(?m)^--- FAIL: (Test\w+) |^\t+(Test\w+) \(\d`) // the second in the list of a timeout
)

func runTests(ctx context.Context, tests, name, pattern string) result {
	cmd := exec.CommandContext(ctx, tests, "-test.v", "-test.failfast", "-test.run", pattern, "-test.timeout", patience)
	cmd.Dir = "integration"
	cmd.Env = append(os.Environ(), mutation.Env+"="+name)
	// The tests stop their server when they are asked to, and not when they are killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	r := result{err: cmd.Run()}
	r.output = output.String()
	r.ran = len(started.FindAllString(r.output, -1))
	for _, match := range broken.FindAllStringSubmatch(r.output, -1) {
		r.failed = append(r.failed, match[1]+match[2])
	}
	slices.Sort(r.failed)
	r.failed = slices.Compact(r.failed)
	return r
}
