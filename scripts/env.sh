# Sourced by the other scripts: makes a virtual environment with exactly the locked packages.
# On a bare Debian it installs what it needs with apt-get and says so; a second call with the same lock does nothing.
# Downloads are kept in uv's own cache (~/.cache/uv), so that a fresh clone on the same machine installs in seconds.

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null 2>&1; then sudo "$@"
  else die "this needs root: $*"; fi
}

# need_packages PACKAGE...: install those Debian packages that are missing
need_packages() {
  local package missing=()
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  command -v apt-get >/dev/null 2>&1 || die "please install: ${missing[*]} (this script knows only apt-get)"
  say "installing ${missing[*]} with apt-get"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# find_python: print a Python of version 3.11 or later
find_python() {
  local name
  for name in "${PYTHON:-}" python3.11 python3.12 python3.13 python3; do
    [ -n "$name" ] && command -v "$name" >/dev/null 2>&1 || continue
    "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$name"; return 0; }
  done
  need_packages python3 >&2
  command -v python3
}

# find_uv: set $UV to the installer, made in .venvs/uv when it is not there
find_uv() {
  local python
  UV="$ROOT/.venvs/uv/bin/uv"
  [ -x "$UV" ] && return 0
  python=$(find_python)
  "$python" -c 'import ensurepip' 2>/dev/null || need_packages python3-venv
  say "making .venvs/uv (the installer)"
  "$python" -m venv "$ROOT/.venvs/uv"
  "$ROOT/.venvs/uv/bin/python" -m pip install -q --disable-pip-version-check 'uv>=0.5'
}

# make_env NAME LOCK [EXTRAS]: set $PY to the Python of .venvs/NAME, made from LOCK, this package installed in it
make_env() {
  local name=$1 lock=$2 extras=${3:-} python stamp env="$ROOT/.venvs/$1"
  python=$(find_python) || die "Python 3.11 or later is needed"
  PY="$env/bin/python"
  stamp="$(cat "$lock" "$ROOT/pyproject.toml" | sha256sum | cut -c1-16) $extras $("$python" -V)"
  [ "$(cat "$env/stamp" 2>/dev/null)" = "$stamp" ] && return 0
  find_uv
  say "making .venvs/$name from ${lock#"$ROOT"/} (the first time: some minutes of download)"
  [ -x "$PY" ] || "$UV" venv -q --python "$python" "$env"
  if [ -n "$extras" ]; then
    "$UV" pip install -q --python "$PY" -c "$lock" -e "$ROOT[$extras]"
  else
    "$UV" pip sync -q --python "$PY" "$lock"
    "$UV" pip install -q --python "$PY" --no-deps -e "$ROOT"
  fi
  echo "$stamp" >"$env/stamp"
}
