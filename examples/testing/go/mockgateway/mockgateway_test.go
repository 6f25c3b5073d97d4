// What a test can do with the mock IAM. All tests run in parallel, with one gateway.
package mockgateway_test

import (
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"example.test/testing/mockgateway"
)

const (
	read  = "urn:shop:orders:order:read"
	write = "urn:shop:orders:order:write"
	alice = "alice@example.test"
)

func TestMain(m *testing.M) { os.Exit(mockgateway.Main(m)) }

func logIn(t *testing.T, gateway *mockgateway.Gateway) mockgateway.Session {
	t.Helper()
	session, err := gateway.LogIn(alice, "alice-pass")
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func exchange(t *testing.T, gateway *mockgateway.Gateway, session mockgateway.Session, scopes ...string) string {
	t.Helper()
	token, err := gateway.Exchange(session, scopes...)
	if err != nil {
		t.Fatal(err)
	}
	return token.Scope
}

func isRefused(t *testing.T, err error, status int, code string) {
	t.Helper()
	var refused *mockgateway.Error
	if !errors.As(err, &refused) || refused.Status != status || refused.Code != code {
		t.Fatalf("expected %d %s, got %v", status, code, err)
	}
}

func equal[T comparable](t *testing.T, expected, actual T) {
	t.Helper()
	if expected != actual {
		t.Fatalf("expected %v, got %v", expected, actual)
	}
}

func TestALockedAccountIsRefused(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	gateway.Users.Change(alice, mockgateway.Members{"state": "locked"})
	_, err := gateway.LogIn(alice, "alice-pass")
	isRefused(t, err, 401, "invalid_grant")
	calls := gateway.Journal.Calls(mockgateway.Filter{Operation: "login"})
	equal(t, 1, len(calls))
	equal(t, "locked", calls[0].Reason) // the client does not receive the reason
}

func TestUsersAreCreatedAndDeleted(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	carol := gateway.Users.Create("carol@example.test", "carol-pass", mockgateway.Members{"permissions": []string{read}})
	equal(t, "active", carol.State)
	if _, err := gateway.LogIn("carol@example.test", "carol-pass"); err != nil {
		t.Fatal(err)
	}
	equal(t, 1, gateway.Users.Get("carol@example.test").Sessions)
	gateway.Users.Delete("carol@example.test")
	equal(t, 2, len(gateway.Users.All()))
}

func TestARemovedPermissionIsMissingInTheNextToken(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	session := logIn(t, gateway)
	gateway.Users.Change(alice, mockgateway.Members{"permissions": []string{read}})
	// The gateway uses the cached permissions for session.freshness.
	equal(t, read+" "+write, exchange(t, gateway, session, read, write))
	gateway.Forget()
	equal(t, read, exchange(t, gateway, session, read, write))
}

func TestTheIamIsUnreachableForTheNextLogin(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	gateway.Faults.Add(mockgateway.Rule{Operation: "login", Answer: "unreachable", Times: 1})
	_, err := gateway.LogIn(alice, "alice-pass")
	isRefused(t, err, 500, "temporarily_unavailable")
	equal(t, 0, len(gateway.Faults.All()))
	logIn(t, gateway)
}

func TestTheIamFailsForTheNextExchange(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	session := logIn(t, gateway)
	gateway.Forget() // otherwise the exchange does not call the IAM
	gateway.Faults.Add(mockgateway.Rule{Operation: "introspection", Answer: "server_error", Times: 1})
	_, err := gateway.Exchange(session, read)
	isRefused(t, err, 500, "temporarily_unavailable")
	gateway.Clock.Advance(time.Second) // until then the gateway holds the fault
	exchange(t, gateway, session, read)
}

func TestAFaultWithADelayIsRemoved(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	fault := gateway.Faults.Add(mockgateway.Rule{Operation: "login", Delay: map[string]string{"fixed": "1ms"}, User: alice})
	logIn(t, gateway)
	equal(t, 1, gateway.Faults.All()[0].Applied)
	gateway.Faults.Remove(fault)
	equal(t, 0, len(gateway.Faults.All()))
}

func TestASessionExpiresWithoutWaiting(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	session := logIn(t, gateway)
	gateway.Clock.Advance(8 * time.Hour)
	_, err := gateway.Exchange(session, read)
	isRefused(t, err, 401, "invalid_grant")
}

func TestTheClockIsSet(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	there := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	gateway.Clock.Set(there)
	if past := gateway.Clock.Now().Sub(there); past < 0 || past > time.Minute {
		t.Fatal(past)
	}
}

func TestASessionThatEndsAtTheIamIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	session, other := logIn(t, gateway), logIn(t, gateway)
	gateway.EndSession(session.ID, true)
	_, err := gateway.Exchange(session, read)
	isRefused(t, err, 401, "invalid_grant")
	exchange(t, gateway, other, read)
	if err := gateway.LogOut(other); err != nil {
		t.Fatal(err)
	}
}

func TestAHundredExchangesCallTheIamOnce(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	session := logIn(t, gateway)
	gateway.Forget()
	for range 100 {
		exchange(t, gateway, session, read)
	}
	calls := gateway.Journal.Wait(1, time.Second, mockgateway.Filter{Operation: "introspection", Session: session.ID})
	equal(t, 1, len(calls))
	equal(t, alice, calls[0].User)
	equal(t, session.ID, calls[0].SessionID)
}

func TestASignedTokenHasTheClaimsOfTheTest(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	token := gateway.Sign(map[string]any{"sub": "carol", "scope": read})
	var inspected struct {
		Valid  bool
		Claims struct{ Sub, Iss string }
	}
	gateway.Control("POST", "/tokens/inspect", map[string]string{"token": token}, &inspected)
	equal(t, true, inspected.Valid)
	equal(t, "carol", inspected.Claims.Sub)
	equal(t, gateway.Issuer, inspected.Claims.Iss)
}

func TestATokenWithoutClaimsOfTheTestIsValid(t *testing.T) {
	t.Parallel()
	gateway := mockgateway.New(t)
	var inspected struct{ Valid bool }
	gateway.Control("POST", "/tokens/inspect", map[string]string{"token": gateway.Sign(nil)}, &inspected)
	equal(t, true, inspected.Valid)
}

func TestAnotherNamespaceIsNotAffected(t *testing.T) {
	t.Parallel()
	gateway, other := mockgateway.New(t), mockgateway.New(t)
	gateway.Users.Change(alice, mockgateway.Members{"state": "locked"})
	logIn(t, other)
	equal(t, 0, len(gateway.Journal.Calls(mockgateway.Filter{})))
	// An application under test forwards the header.
	request, err := http.NewRequest("GET", gateway.ManagementURL+"/mock/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = other.Header.Clone()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	equal(t, 200, response.StatusCode)
}
