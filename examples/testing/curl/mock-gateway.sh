# Bash functions for tests against auth-gateway with its mock IAM. Needs curl and jq. Source this file, then call start_gateway.
#
# GATEWAY_BIN is the program that start_gateway starts; without it, auth-gateway-dev from the PATH.
# GATEWAY_URL and GATEWAY_MANAGEMENT_URL are the two listeners of one that runs already, if both are set.

# Sets $gateway_url, $issuer and $control_url. The gateway stops with the shell.
start_gateway() {
  gateway_url=${GATEWAY_URL-} control_url=${GATEWAY_MANAGEMENT_URL-}/mock/v1
  if [[ -n ${GATEWAY_URL-} && -n ${GATEWAY_MANAGEMENT_URL-} ]]; then
    issuer=$(curl -sSf "$gateway_url/.well-known/oauth-authorization-server" | jq -r .issuer)
    return
  fi
  local listening
  # Services that find the keys by discovery need the issuer at the address of the listener: set both of them for those.
  issuer=http://auth.test
  gateway_log=$(mktemp)
  # Port 0 selects a free port. The log has it as soon as both listeners accept connections.
  AUTH_GATEWAY__HTTP__LISTEN=127.0.0.1:0 AUTH_GATEWAY__MANAGEMENT__LISTEN=127.0.0.1:0 \
    AUTH_GATEWAY__HTTP__PUBLIC_URL=$issuer AUTH_GATEWAY__LOG__FORMAT=json \
    "${GATEWAY_BIN:-auth-gateway-dev}" >"$gateway_log" 2>&1 &
  gateway_process=$!
  trap stop_gateway EXIT
  until listening=$(grep -m 1 '"message":"listening"' "$gateway_log"); do
    kill -0 "$gateway_process" || { cat "$gateway_log" >&2; exit 1; }
    sleep 0.01
  done
  gateway_url=http://$(jq -r '."http.address"' <<<"$listening")
  control_url=http://$(jq -r '."management.address"' <<<"$listening")/mock/v1
}

# stop_gateway: stops the gateway that start_gateway has started.
stop_gateway() {
  [[ -n ${gateway_process-} ]] || return 0
  kill "$gateway_process" 2>/dev/null || true
  rm -f "$gateway_log"
}

# run_tests: runs each function whose name begins with test_, in a namespace of its own. The first failure ends the
# shell.
run_tests() {
  local result
  # A test that `set -e` ends does not return.
  trap end_tests EXIT
  for running_test in $(compgen -A function test_); do
    # At random: the process ids of two containers can be the same.
    namespace=$(printf '%04x%04x%04x%04x' $RANDOM $RANDOM $RANDOM $RANDOM)
    # Without a condition around it, so that `set -e` also has an effect within the test.
    "$running_test"
    result=$?
    ((result == 0)) || exit "$result"
    control DELETE "/namespaces/$namespace"
    echo "passed: $running_test"
  done
  running_test=
}

# end_tests: what run_tests does when the shell ends. If a test has not ended, it has failed: reports it with the last
# response and the calls to the IAM, and ends its namespace.
end_tests() {
  local result=$?
  # The gateway stops also if the rest fails.
  set +e
  if [[ -n ${running_test-} ]]; then
    echo "failed: $running_test ended with $result; the last response was ${status-} ${body-}" >&2
    curl -sS "$control_url/journal" -H "Mock-Namespace: $namespace" | jq -c '.entries[]' >&2
    curl -sS -X DELETE "$control_url/namespaces/$namespace" >&2
  fi
  stop_gateway
}

# call METHOD URL [JSON]: sets $status and $body. The header selects the namespace.
call() {
  local response
  response=$(curl -sS -X "$1" "$2" -H "Mock-Namespace: $namespace" -H 'content-type: application/json' \
    ${3:+-d "$3"} -w '\n%{http_code}')
  status=${response##*$'\n'} body=${response%$'\n'*}
}

# control METHOD PATH [JSON]: a call of the control API, which /mock/v1/openapi.yaml describes. Fails unless it is accepted.
control() {
  call "$1" "$control_url$2" "${3:-}"
  [[ $status == 2?? ]] || fail "$1 $2"
}

# log_in EMAIL PASSWORD: sets $session too.
log_in() {
  call POST "$gateway_url/api/v1/auth/login" "$(jq -nc '{email: $ARGS.positional[0], password: $ARGS.positional[1]}' --args "$1" "$2")"
  session=$body
}

# exchange SCOPE...: with $session.
exchange() {
  call POST "$gateway_url/api/v1/auth/token" "$(exchange_body "$@")"
}

exchange_body() {
  jq -c --arg scope "$*" '. + {grant_type: "session", scope: $scope}' <<<"$session"
}

# from_body FILTER: a value of the last response, by a filter of jq.
from_body() {
  jq -r "$1" <<<"$body"
}

# expect EXPECTED ACTUAL
expect() {
  [[ $1 == "$2" ]] || fail "expected $1, got $2"
}

# fail TEXT: ends the tests.
fail() {
  echo "$1" >&2
  exit 1
}
