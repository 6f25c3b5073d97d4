#!/usr/bin/env bash
# Tests with the gateway's mock IAM, in curl and jq. $GATEWAY_BIN is the program; without it, the one on the PATH.
set -euo pipefail

issuer=http://auth.test
read=urn:shop:orders:order:read
write=urn:shop:orders:order:write

# Port 0 selects a free port. The log has it as soon as both listeners accept connections.
log=$(mktemp)
AUTH_GATEWAY__HTTP__LISTEN=127.0.0.1:0 AUTH_GATEWAY__MANAGEMENT__LISTEN=127.0.0.1:0 \
  AUTH_GATEWAY__HTTP__PUBLIC_URL=$issuer AUTH_GATEWAY__IAM__MOCK__FIXED_SIGNING_KEY=true \
  AUTH_GATEWAY__LOG__FORMAT=json "${GATEWAY_BIN:-auth-gateway-dev}" >"$log" 2>&1 &
gateway=$!
trap 'kill "$gateway" 2>/dev/null; rm "$log"' EXIT
until listening=$(grep -m 1 '"message":"listening"' "$log"); do
  kill -0 "$gateway" || { cat "$log" >&2; exit 1; }
  sleep 0.01
done
public=http://$(jq -r '."http.address"' <<<"$listening")
mock=http://$(jq -r '."management.address"' <<<"$listening")/mock/v1

# call METHOD URL [JSON]: sets $status and $body. The header selects the namespace.
call() {
  local response
  response=$(curl -sS -X "$1" "$2" -H "Mock-Namespace: $namespace" -H 'content-type: application/json' \
    ${3:+-d "$3"} -w '\n%{http_code}')
  status=${response##*$'\n'} body=${response%$'\n'*}
}

# control METHOD PATH [JSON]: fails unless the control API accepts the request.
control() {
  call "$1" "$mock$2" "${3:-}"
  [[ $status == 2?? ]] || { echo "$namespace: $1 $2: $status $body" >&2; exit 1; }
}

log_in() {
  call POST "$public/api/v1/auth/login" '{"email":"alice@example.test","password":"alice-pass"}'
  session=$body
}

# The exchange takes the members of the login response, and two more.
exchange_body() {
  echo "${session%\}},\"grant_type\":\"session\",\"scope\":\"$read $write\"}"
}

exchange() {
  call POST "$public/api/v1/auth/token" "$(exchange_body)"
}

# expect EXPECTED ACTUAL: `expect 200 "$status"`
expect() {
  [[ $1 == "$2" ]] || { echo "$namespace: expected $1, got $2; the last response was $status $body" >&2; exit 1; }
}

from_body() {
  jq -r "$1" <<<"$body"
}

test_a_locked_account_is_refused() {
  control PATCH /users/alice@example.test '{"state":"locked"}'
  log_in
  expect 401 "$status"
  control GET '/journal?operation=login'
  expect locked "$(from_body '.entries[0].reason')" # the client does not receive the reason
}

test_the_next_login_is_refused() {
  control POST /faults '{"operation":"login","times":1,"answer":{"refused":"disabled"}}'
  log_in
  expect 401 "$status"
  log_in
  expect 200 "$status"
}

test_a_removed_permission_is_missing_in_the_next_token() {
  log_in
  control PATCH /users/alice@example.test "{\"permissions\":[\"$read\"]}"
  exchange # uses cached permissions for session.freshness
  expect "$read $write" "$(from_body .scope)"
  control POST /forget
  exchange
  expect "$read" "$(from_body .scope)"
}

test_the_iam_is_unreachable_for_the_next_login() {
  control POST /faults '{"operation":"login","times":1,"answer":"unreachable"}'
  log_in
  expect "500 temporarily_unavailable" "$status $(from_body .error)"
  log_in
  expect 200 "$status"
}

test_the_iam_fails_for_the_next_exchange() {
  log_in
  control POST /forget # otherwise the exchange does not call the IAM
  control POST /faults '{"operation":"introspection","times":1,"answer":"server_error"}'
  exchange
  expect 500 "$status"
  control POST /time/advance '{"by":"1s"}' # until then the gateway holds the fault
  exchange
  expect 200 "$status"
}

test_a_session_expires_without_waiting() {
  log_in
  control POST /time/advance '{"by":"8h"}'
  exchange
  expect 401 "$status"
}

test_a_hundred_exchanges_call_the_iam_once() {
  log_in
  control POST /forget
  curl -sSf -o /dev/null "$public/api/v1/auth/token#[1-100]" -d "$(exchange_body)" \
    -H "Mock-Namespace: $namespace" -H 'content-type: application/json'
  control GET '/journal?operation=introspection'
  expect 1 "$(from_body .count)"
}

test_a_token_has_the_claims_that_the_test_chooses() {
  control POST /tokens "{\"claims\":{\"sub\":\"carol\",\"scope\":\"$read\"}}"
  local token
  token=$(from_body .access_token)
  control POST /tokens/inspect "{\"token\":\"$token\"}"
  expect "true carol $issuer" "$(from_body '"\(.valid) \(.claims.sub) \(.claims.iss)"')"
  local kid
  kid=$(from_body .header.kid)
  call GET "$public/.well-known/jwks.json"
  expect "$kid" "$(from_body '.keys[].kid')"
}

for test in $(compgen -A function test_); do
  namespace=$test
  "$test"
  control DELETE "/namespaces/$namespace"
  echo "passed: $test"
done
