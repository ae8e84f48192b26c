// Command chaos runs worker processes and producers on PostgreSQL servers of its own, and takes away one thing after the other:
// workers are killed and stopped, backends terminated, servers restarted without a checkpoint, connections cut, delayed and
// blackholed before and after COMMIT, and the primary lost to a standby. In between, what producers and workers noted outside the
// database is compared with what is in it: no task lost, none settled twice, and no execution too many that no fault explains.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if spec := os.Getenv(workerEnv); spec != "" {
		if err := workerMain(spec, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "chaos:", err)
			os.Exit(1)
		}
	}
}

type options struct {
	long     bool
	duration time.Duration
	seed     uint64
	keep     bool
}

func parse(args []string) (options, error) {
	var o options
	var short bool
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.BoolVar(&short, "short", false, "one round, at most 3 minutes (the default)")
	f.BoolVar(&o.long, "long", false, "rounds until --duration is over, each on new servers and with the next seed")
	f.DurationVar(&o.duration, "duration", 30*time.Minute, "how long --long goes on")
	f.Uint64Var(&o.seed, "seed", 0, "of the schedule of faults, to repeat one (default random)")
	f.BoolVar(&o.keep, "keep", false, "keep journals and logs also when nothing was found")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if short && o.long {
		return o, errors.New("--short and --long exclude each other")
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	return o, nil
}

// errFound is the error of a run that found something.
var errFound = errors.New("something was found, see above")

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	begin := time.Now()
	var total summary
	for n := 0; ; n++ {
		seed := o.seed + uint64(n)
		fmt.Printf("round %d, seed %d\n", n+1, seed)
		s, err := round{out: os.Stdout, seed: seed, plans: plans, keep: o.keep}.run(ctx)
		total.add(s)
		total.broken = err != nil
		if err != nil || len(s.findings) > 0 {
			total.write(os.Stdout)
			return cmp.Or(err, errFound)
		}
		if !o.long || time.Since(begin) >= o.duration {
			break
		}
	}
	total.seconds = time.Since(begin).Seconds()
	total.write(os.Stdout)
	return nil
}
