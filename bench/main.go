// Command bench runs the same work on pgqueue, on other queues and on bare SQL, on one server, in turns.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	quick       bool
	only        string
	rounds      int
	json        string
	databaseURL string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if spec := os.Getenv(workerEnv); spec != "" {
		err = workerMain(ctx, spec, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:])
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.BoolVar(&o.quick, "quick", false, "shorter cells and smaller tables: under 4 minutes, to steer by")
	f.StringVar(&o.only, "only", "", "workloads to run, such as W1,W5 (default all)")
	f.IntVar(&o.rounds, "rounds", 0, "rounds of each cell (default 5, with --quick 3; slow workloads take fewer)")
	f.StringVar(&o.json, "json", "", "file to write all samples to, as JSON")
	f.StringVar(&o.databaseURL, "database-url", "", "server to run on, as a superuser; default: the PostgreSQL programs of this machine")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if o.rounds < 0 {
		return o, fmt.Errorf("--rounds is %d", o.rounds)
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	began := time.Now()
	e, err := newEnv(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close(context.WithoutCancel(ctx))) }()

	r := report{Started: began, Quick: o.quick, Systems: versions()}
	if r.Server, err = e.describe(ctx); err != nil {
		return err
	}
	for n, w := range chosen {
		groups, err := e.run(ctx, w, e.budgetOf(chosen[n:], time.Since(began)))
		if err != nil {
			return fmt.Errorf("%s: %w", w.id, err)
		}
		r.Groups = append(r.Groups, groups...)
	}
	r.Seconds = time.Since(began).Seconds()
	r.Bars = bars(r.Groups)
	if o.json != "" {
		if err := r.writeJSON(o.json); err != nil {
			return err
		}
	}
	return r.writeMarkdown(os.Stdout)
}

// choose returns the workloads that a list names, in their own order.
func choose(only string) ([]workload, error) {
	all := workloads()
	if only == "" {
		return all, nil
	}
	ids := strings.Split(strings.ToUpper(strings.ReplaceAll(only, " ", "")), ",")
	var chosen []workload
	for _, w := range all {
		if i := slices.Index(ids, w.id); i >= 0 {
			chosen = append(chosen, w)
			ids = slices.Delete(ids, i, i+1)
		}
	}
	if len(ids) > 0 {
		return nil, fmt.Errorf("--only: there is no workload %s", strings.Join(ids, ", "))
	}
	return chosen, nil
}
