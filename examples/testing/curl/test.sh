#!/usr/bin/env bash
# What a test can do with the mock IAM, in curl and jq.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/mock-gateway.sh"

read=urn:shop:orders:order:read
write=urn:shop:orders:order:write

test_a_locked_account_is_refused() {
  control PATCH /users/alice@example.test '{"state":"locked"}'
  log_in alice@example.test alice-pass
  expect 401 "$status"
  control GET '/journal?operation=login'
  expect locked "$(from_body '.entries[0].reason')" # the client does not receive the reason
}

test_the_next_login_is_refused() {
  control POST /faults '{"operation":"login","times":1,"answer":{"refused":"disabled"}}'
  log_in alice@example.test alice-pass
  expect 401 "$status"
  log_in alice@example.test alice-pass
  expect 200 "$status"
}

test_a_removed_permission_is_missing_in_the_next_token() {
  log_in alice@example.test alice-pass
  control PATCH /users/alice@example.test "{\"permissions\":[\"$read\"]}"
  exchange "$read" "$write" # uses cached permissions for session.freshness
  expect "$read $write" "$(from_body .scope)"
  control POST /forget
  exchange "$read" "$write"
  expect "$read" "$(from_body .scope)"
}

test_the_iam_is_unreachable_for_the_next_login() {
  control POST /faults '{"operation":"login","times":1,"answer":"unreachable"}'
  log_in alice@example.test alice-pass
  expect "500 temporarily_unavailable" "$status $(from_body .error)"
  log_in alice@example.test alice-pass
  expect 200 "$status"
}

test_the_iam_fails_for_the_next_exchange() {
  log_in alice@example.test alice-pass
  control POST /forget # otherwise the exchange does not call the IAM
  control POST /faults '{"operation":"introspection","times":1,"answer":"server_error"}'
  exchange "$read"
  expect 500 "$status"
  control POST /time/advance '{"by":"1s"}' # until then the gateway holds the fault
  exchange "$read"
  expect 200 "$status"
}

test_a_session_expires_without_waiting() {
  log_in alice@example.test alice-pass
  control POST /time/advance '{"by":"8h"}'
  exchange "$read"
  expect 401 "$status"
}

test_a_session_that_ends_at_the_iam_is_refused_at_once() {
  log_in alice@example.test alice-pass
  control DELETE "/sessions/$(jq -r .session_id <<<"$session")?notify=true"
  exchange "$read"
  expect 401 "$status"
}

test_a_hundred_exchanges_call_the_iam_once() {
  log_in alice@example.test alice-pass
  control POST /forget
  curl -sSf -o /dev/null "$gateway_url/api/v1/auth/token#[1-100]" -d "$(exchange_body "$read")" \
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
  call GET "$gateway_url/.well-known/jwks.json"
  expect "$kid" "$(from_body '.keys[].kid')"
}

start_gateway
run_tests
