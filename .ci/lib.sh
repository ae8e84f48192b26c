# Shared by the scripts in this folder. Source it, do not run it.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ci=$root/.ci

# PostgreSQL majors that CI builds images of and tests, oldest first.
# shellcheck disable=SC2034
pg_versions=(14 15 16 17 18)

# Integration tests at once: twice as many as processors, because they mostly
# wait for each other's locks.
# shellcheck disable=SC2034
parallel=$((2 * $(nproc)))

say() { printf '\n==> %s\n' "$*"; }

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Run a command as an unprivileged user with a clean set of groups.
as_user() {
	local user=$1
	shift
	setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups "$@"
}

# As postgres when we are root: PostgreSQL and pgbouncer refuse to run as root.
as_postgres() {
	if [ "$(id -u)" = 0 ]; then as_user postgres "$@"; else "$@"; fi
}

# Debian's server programs.
pg_bin=${PG_BIN:-/usr/lib/postgresql/15/bin}

# A new folder for a server, in memory where there is room: every test makes a
# database, which is many times faster there than on most disks.
server_dir() {
	local base=${TMPDIR:-/tmp} free
	free=$(df --output=avail -BM /dev/shm 2>/dev/null | tr -dc 0-9)
	[ "${free:-0}" -lt 2048 ] || base=/dev/shm
	mktemp -d -p "$base" ci-pgqueue-XXXXXX
}

# server_start DIR [SETTING...]: a new server in DIR, whose socket is the only
# way in.
server_start() {
	local dir=$1 setting options=
	shift
	[ -x "$pg_bin/initdb" ] || die "no PostgreSQL programs in $pg_bin"
	[ "$(id -u)" != 0 ] || chown postgres "$dir"
	chmod 755 "$dir" # for root, and for who tests
	for setting in "listen_addresses=''" "unix_socket_directories=$dir" fsync=off "$@"; do
		options+=" -c $setting"
	done
	(
		cd "$dir"
		as_postgres "$pg_bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$dir/initdb.log" ||
			die "initdb failed"
		as_postgres "$pg_bin/pg_ctl" -D "$dir/data" -l "$dir/data/log" -w -s start -o "$options"
	) || {
		cat "$dir/data/log" >&2
		die "the server does not start"
	}
}

server_stop() { as_postgres "$pg_bin/pg_ctl" -D "$1/data" -m immediate -s stop || true; }

# Run a command with nothing in its environment but what a login has.
clean_env() { env -i PATH="$PATH" HOME="$HOME" "$@"; }

# Run a go test command and show its output. go test calls it a success when no
# test ran, or when only remembered results were shown. Here both fail.
run_tests() {
	local log status=0
	log=$(mktemp)
	"$@" 2>&1 | tee "$log" || status=1
	if [ $status = 0 ] && ! grep '^ok[[:space:]]' "$log" | grep -qvF -e '[no tests to run]' -e '(cached)'; then
		echo "error: no test ran" >&2
		status=1
	fi
	rm -f "$log"
	return $status
}

docker_answers() { docker info >/dev/null 2>&1; }

# A pid file that a killed daemon left behind may name a process that is
# something else by now, and the daemon would then refuse to start.
drop_stale_pidfile() {
	local file=$1 name=$2 pid
	[ -s "$file" ] || return 0
	pid=$(<"$file")
	[ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$name" ] || rm -f "$file"
}

# docker_start PIDFILE LOG: start dockerd unless one answers. PIDFILE is written
# only if one was started, and names it to docker_stop.
docker_start() {
	local pidfile=$1 log=$2 pid
	docker_answers && return 0
	drop_stale_pidfile /var/run/docker.pid dockerd
	drop_stale_pidfile /var/run/docker/containerd/containerd.pid containerd
	# A session of its own: an interrupt at the terminal must reach the
	# clean-up first, not the daemon under it.
	setsid dockerd >"$log" 2>&1 </dev/null &
	pid=$!
	echo $pid >"$pidfile"
	for _ in $(seq 60); do
		docker_answers && return 0
		kill -0 $pid 2>/dev/null || break
		sleep 0.5
	done
	tail -20 "$log" >&2
	die "dockerd does not answer"
}

docker_stop() {
	local pidfile=$1 pid
	[ -s "$pidfile" ] || return 0
	pid=$(<"$pidfile")
	kill "$pid" 2>/dev/null || return 0
	for _ in $(seq 60); do
		# The stage that started it is gone, and not every init collects
		# the dead: a zombie has stopped too.
		grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$pid/status" || return 0
		sleep 0.5
	done
	echo "warning: dockerd ($pid) does not stop" >&2
}

# testcontainers: dial the published ports on this host even where it takes the
# host for a container, and no Ryuk, whose image would have to be pulled. The
# session id marks our containers for docker_sweep, which stands in for Ryuk.
export TESTCONTAINERS_HOST_OVERRIDE=${TESTCONTAINERS_HOST_OVERRIDE:-127.0.0.1}
export TESTCONTAINERS_RYUK_DISABLED=true
export TESTCONTAINERS_SESSION_ID=${TESTCONTAINERS_SESSION_ID:-pgqueue-ci-$$-$(date +%s)}

# Remove the containers that tests of this run left behind.
docker_sweep() {
	docker_answers || return 0
	docker ps -aq --filter label=org.testcontainers=true \
		--filter "label=org.testcontainers.sessionId=$TESTCONTAINERS_SESSION_ID" |
		xargs -r docker rm -fv >/dev/null
}
