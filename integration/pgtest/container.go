package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
)

const (
	dockerSocket = "/var/run/docker.sock"
	dataMount    = "/pgqueue-test"
)

// pingDocker is quick on purpose: testcontainers itself takes long to find out that there is no docker.
func pingDocker(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if host == "" {
		host = "unix://" + dockerSocket
	}
	target, err := url.Parse(host)
	if err != nil {
		return fmt.Errorf("DOCKER_HOST: %w", err)
	}
	network, address := target.Scheme, target.Host
	switch network {
	case "unix":
		address = target.Path
	case "tcp", "http", "https":
		network = "tcp"
	default:
		return fmt.Errorf("DOCKER_HOST: cannot check %s", host)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	if network == "tcp" { // may speak TLS with certificates that testcontainers knows; that it listens must do
		return conn.Close()
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return errors.Join(err, ignoreClosed(conn.Close()))
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", host, response.Status)
	}
	return nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// startContainer turns a panic of testcontainers, which it raises when it finds no docker, into an error.
func startContainer(ctx context.Context, image string, settings map[string]string) (_ *server, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("testcontainers: %v", problem)
		}
	}()
	command := []string{"postgres"}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		command = append(command, "-c", name+"="+settings[name])
	}
	container, err := postgres.Run(ctx, image,
		postgres.WithDatabase("postgres"),
		postgres.WithUsername("postgres"),
		postgres.WithPassword("postgres"),
		testcontainers.WithCmd(command...),
		// In memory, for speed; below a path that no version of the image has a volume at.
		testcontainers.WithTmpfs(map[string]string{dataMount: "rw"}),
		testcontainers.WithEnv(map[string]string{"PGDATA": dataMount + "/data"}),
		postgres.BasicWaitStrategies(),
	)
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(container))
	}
	text, err := container.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(container))
	}
	base, err := url.Parse(text)
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(container))
	}
	return &server{
		kind: kindContainer,
		base: base,
		log: func(ctx context.Context) (string, error) {
			reader, err := container.Logs(ctx)
			if err != nil {
				return "", err
			}
			text, err := io.ReadAll(reader)
			return string(text), errors.Join(err, reader.Close())
		},
		stop: func(ctx context.Context) error {
			return testcontainers.TerminateContainer(container, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0))
		},
	}, nil
}
