package pgtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"strings"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
)

const (
	kindURL       = "url"
	kindContainer = "container"
	kindPrograms  = "programs"
	defaultImage  = "postgres:17"
)

type server struct {
	kind   string
	base   *url.URL
	pooler *url.URL // nil without one
	log    func(context.Context) (string, error)
	stop   func(context.Context) error
}

// url names a database of the server; "" means the one that it was given with.
func (s *server) url(database string, parameters ...string) string {
	return withDatabase(s.base, database, parameters...)
}

func withDatabase(base *url.URL, database string, parameters ...string) string {
	full := *base
	if database != "" {
		full.Path = "/" + database
	}
	// In these URLs a plus is a plus, unlike in the forms of the web that net/url has in mind.
	full.RawQuery = strings.ReplaceAll(full.RawQuery, "+", "%2B")
	query := full.Query()
	for i := 0; i+1 < len(parameters); i += 2 {
		query.Set(parameters[i], parameters[i+1])
	}
	full.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return full.String()
}

// testSettings trade safety for speed and make waiting short.
func testSettings(extra map[string]string) map[string]string {
	settings := map[string]string{
		"fsync":                     "off",
		"synchronous_commit":        "off",
		"full_page_writes":          "off",
		"max_connections":           "300",
		"max_prepared_transactions": "10",
		"shared_preload_libraries":  "",
		"deadlock_timeout":          "200ms",
		"track_functions":           "none",
		"log_destination":           "stderr",
		"logging_collector":         "off",
		"log_min_messages":          "warning",
		"timezone":                  "UTC",
	}
	maps.Copy(settings, extra)
	return settings
}

// chooseServer falls back only from the default image: what somebody asked for must work.
func chooseServer(ctx context.Context, extra map[string]string, env func(string) string) (*server, error) {
	if given := env(DatabaseURLEnv); given != "" {
		return givenServer(given, env(PoolerURLEnv))
	}
	if env(PoolerURLEnv) != "" {
		return nil, fmt.Errorf("%s needs %s, the server behind it", PoolerURLEnv, DatabaseURLEnv)
	}
	settings := testSettings(extra)
	if image := env(ImageEnv); image != "" {
		found, err := startContainer(ctx, image, settings)
		if err != nil {
			return nil, fmt.Errorf("container of %s=%s: %w", ImageEnv, image, err)
		}
		return found, nil
	}
	docker := pingDocker(ctx, env("DOCKER_HOST"))
	if docker == nil {
		found, err := startContainer(ctx, defaultImage, settings)
		if err == nil {
			return found, nil
		}
		docker = err
		fmt.Fprintf(os.Stderr, "pgtest: no container of %s, trying the local programs: %v\n", defaultImage, err)
	}
	found, err := startPrograms(ctx, settings)
	if errors.Is(err, devserver.ErrNoPrograms) {
		return nil, fmt.Errorf("the tests need a PostgreSQL server: set %s, or start docker, or install PostgreSQL.\nDocker: %w\nPrograms: %w",
			DatabaseURLEnv, docker, err)
	}
	return found, err
}

func givenServer(given, pooler string) (*server, error) {
	base, err := givenURL(DatabaseURLEnv, given)
	if err != nil {
		return nil, err
	}
	s := &server{
		kind: kindURL,
		base: base,
		log: func(context.Context) (string, error) {
			return "", fmt.Errorf("out of reach for a server given by %s: %w", DatabaseURLEnv, errors.ErrUnsupported)
		},
		stop: func(context.Context) error { return nil },
	}
	if pooler != "" {
		s.pooler, err = givenURL(PoolerURLEnv, pooler)
	}
	return s, err
}

func givenURL(name, text string) (*url.URL, error) {
	found, err := url.Parse(text)
	if err != nil || (found.Scheme != "postgres" && found.Scheme != "postgresql") {
		return nil, fmt.Errorf("%s is not a postgres:// URL", name) // without its text, which may hold a password
	}
	return found, nil
}

func startPrograms(ctx context.Context, settings map[string]string) (*server, error) {
	started, err := devserver.StartTemporary(ctx, devserver.Options{Dir: memoryDir(), Settings: settings})
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(started.URL)
	if err != nil {
		return nil, errors.Join(err, started.Stop(ctx))
	}
	return &server{
		kind: kindPrograms,
		base: base,
		log: func(context.Context) (string, error) {
			text, err := os.ReadFile(started.LogFile())
			return string(text), err
		},
		stop: started.Stop,
	}, nil
}
