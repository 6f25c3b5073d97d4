// Package mockgateway is for tests against auth-gateway with its mock IAM. Copy this file: it needs Go 1.22 or later and
// nothing else.
//
//	func TestMain(m *testing.M) { os.Exit(mockgateway.Main(m)) }
//
//	func TestLockedAccount(t *testing.T) {
//		gateway := mockgateway.New(t)
//		gateway.Users.Change("alice@example.test", mockgateway.Members{"state": "locked"})
//		...
//	}
//
// GATEWAY_BIN is the program that Main starts once for all tests of a package; without it, auth-gateway-dev from the PATH.
// GATEWAY_URL and GATEWAY_MANAGEMENT_URL are the two listeners of one that runs already, if both are set.
package mockgateway

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Settings are for the gateway that Main starts, named as in the configuration file: {"token.lifetime": "5m"}.
var Settings = map[string]string{}

// Address is where a gateway is, and the issuer of its tokens.
type Address struct{ URL, ManagementURL, Issuer string }

// Gateway is one namespace of a gateway: users, sessions, faults, time and journal of its own. Its methods fail the test if
// the control API refuses a call.
type Gateway struct {
	Address
	// Header selects the namespace: the application under test forwards it to the gateway.
	Header  http.Header
	Users   Users
	Faults  Faults
	Clock   Clock
	Journal Journal
	t       testing.TB
}

// Error is a call that the gateway refused, or that failed.
type Error struct {
	Status int    `json:"-"`
	Code   string `json:"error"`
	Text   string `json:"error_description"`
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Text) }

// Session is the result of a login.
type Session struct {
	ID         string    `json:"session_id"`
	Token      string    `json:"session_token"`
	VerifiedAt time.Time `json:"verified_at"`
	ExpiresAt  time.Time `json:"expires_at"`
}

// AccessToken is the result of an exchange.
type AccessToken struct {
	Token     string `json:"access_token"`
	Scope     string `json:"scope"`
	ExpiresIn int    `json:"expires_in"`
}

// User is a user of the mock.
type User struct {
	Email       string         `json:"email"`
	Subject     string         `json:"subject"`
	Permissions []string       `json:"permissions"`
	Attributes  map[string]any `json:"attributes"`
	State       string         `json:"state"`
	Sessions    int            `json:"sessions"`
	OTP         string         `json:"otp"`
}

// Members are those of a user, as in a users file.
type Members map[string]any

// Rule is a fault to add. Answer and Delay are as in the control API: "unreachable", or a map.
type Rule struct {
	Operation string  `json:"operation"`
	Answer    any     `json:"answer,omitempty"`
	Delay     any     `json:"delay,omitempty"`
	Times     int     `json:"times,omitempty"`
	Share     float64 `json:"share,omitempty"`
	User      string  `json:"user,omitempty"`
}

// Fault is a fault that is not used up.
type Fault struct {
	Rule
	ID        int  `json:"id"`
	Applied   int  `json:"applied"`
	Remaining *int `json:"remaining"`
}

// Call is a call of the gateway to the IAM.
type Call struct {
	Number    int       `json:"number"`
	At        time.Time `json:"at"`
	Operation string    `json:"operation"`
	Outcome   string    `json:"outcome"`
	Reason    string    `json:"reason"`
	User      string    `json:"user"`
	Session   string    `json:"session"`
	SessionID string    `json:"session_id"`
	RequestID string    `json:"request_id"`
	Fault     *int      `json:"fault"`
}

// Filter selects calls; empty members match all.
type Filter struct{ Operation, User, Outcome, RequestID, Session string }

var running Address

// Main runs the tests of a package with one gateway, and returns the exit code for os.Exit. The gateway stops after the tests.
// If a test panics, or `go test` reaches its time limit, the process of the tests ends at once and the gateway continues: end
// it by its process id.
func Main(m *testing.M) int {
	stop, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mockgateway:", err)
		return 1
	}
	defer stop()
	return m.Run()
}

// New returns a namespace for this test, which ends with it. If the test fails, its log has the calls to the IAM.
func New(t testing.TB) *Gateway {
	t.Helper()
	if running.URL == "" {
		t.Fatal("mockgateway: TestMain does not call mockgateway.Main")
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	name := hex.EncodeToString(random)
	g := &Gateway{Address: running, Header: http.Header{"Mock-Namespace": {name}}, t: t}
	g.Users, g.Faults, g.Clock, g.Journal = Users{g}, Faults{g}, Clock{g}, Journal{g}
	t.Cleanup(func() {
		if t.Failed() {
			for _, call := range g.Journal.Calls(Filter{}) {
				t.Logf("call to the mock IAM: %+v", call)
			}
		}
		g.Control("DELETE", "/namespaces/"+name, nil, nil)
	})
	return g
}

// LogIn begins a session. A refusal is an *Error.
func (g *Gateway) LogIn(email, password string) (Session, error) {
	var session Session
	err := g.call("POST", g.URL+"/api/v1/auth/login", Members{"email": email, "password": password}, &session)
	return session, err
}

// Exchange returns an access token. A refusal is an *Error.
func (g *Gateway) Exchange(session Session, scopes ...string) (AccessToken, error) {
	body := Members{
		"session_id": session.ID, "session_token": session.Token, "grant_type": "session", "scope": strings.Join(scopes, " "),
	}
	var token AccessToken
	err := g.call("POST", g.URL+"/api/v1/auth/token", body, &token)
	return token, err
}

// LogOut ends a session. A refusal is an *Error.
func (g *Gateway) LogOut(session Session) error {
	body := Members{"session_id": session.ID, "session_token": session.Token}
	return g.call("POST", g.URL+"/api/v1/auth/logout", body, nil)
}

// Forget clears the gateway's caches: the next exchange of each session calls the IAM.
func (g *Gateway) Forget() {
	g.t.Helper()
	g.Control("POST", "/forget", nil, nil)
}

// Sign returns an access token with these claims in place of those of an ordinary one; nil removes one.
func (g *Gateway) Sign(claims map[string]any) string {
	g.t.Helper()
	if claims == nil {
		// JSON would have null.
		claims = map[string]any{}
	}
	var token AccessToken
	g.Control("POST", "/tokens", Members{"claims": claims}, &token)
	return token.Token
}

// EndSession ends a session, by either id, at the IAM, with or without a back-channel logout.
func (g *Gateway) EndSession(id string, notify bool) {
	g.t.Helper()
	g.Control("DELETE", "/sessions/"+url.PathEscape(id)+"?notify="+strconv.FormatBool(notify), nil, nil)
}

// Control makes any call of the control API, which /mock/v1/openapi.yaml describes. body and response may be nil.
func (g *Gateway) Control(method, path string, body, response any) {
	g.t.Helper()
	if err := g.call(method, g.ManagementURL+"/mock/v1"+path, body, response); err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
}

func (g *Gateway) call(method, url string, body, response any) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, url, sent)
	if err != nil {
		return err
	}
	request.Header = g.Header.Clone()
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	received, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer received.Body.Close()
	text, err := io.ReadAll(received.Body)
	if err != nil {
		return err
	}
	if received.StatusCode >= 300 {
		failure := &Error{Text: string(text)}
		// A response of another program may have no JSON.
		_ = json.Unmarshal(text, failure)
		failure.Status = received.StatusCode
		return failure
	}
	if response == nil {
		return nil
	}
	return json.Unmarshal(text, response)
}

// Users are the users of the namespace.
type Users struct{ g *Gateway }

// All returns every user, by address.
func (u Users) All() []User {
	u.g.t.Helper()
	var found struct{ Users []User }
	u.g.Control("GET", "/users", nil, &found)
	return found.Users
}

// Get returns one user.
func (u Users) Get(email string) User { u.g.t.Helper(); return u.one("GET", userPath(email), nil) }

// Create adds a user with further members, which may be nil.
func (u Users) Create(email, password string, members Members) User {
	u.g.t.Helper()
	all := Members{"email": email, "password": password}
	for name, value := range members {
		all[name] = value
	}
	return u.one("POST", "/users", all)
}

// Change changes members of a user.
func (u Users) Change(email string, members Members) User {
	u.g.t.Helper()
	return u.one("PATCH", userPath(email), members)
}

// Delete deletes a user and ends the sessions.
func (u Users) Delete(email string) {
	u.g.t.Helper()
	u.g.Control("DELETE", userPath(email), nil, nil)
}

func (u Users) one(method, path string, body any) User {
	u.g.t.Helper()
	var user User
	u.g.Control(method, path, body, &user)
	return user
}

func userPath(email string) string { return "/users/" + url.PathEscape(email) }

// Faults are what the mock does instead of responding normally.
type Faults struct{ g *Gateway }

// Add adds a fault.
func (f Faults) Add(rule Rule) Fault {
	f.g.t.Helper()
	var fault Fault
	f.g.Control("POST", "/faults", rule, &fault)
	return fault
}

// All returns those that are not used up.
func (f Faults) All() []Fault {
	f.g.t.Helper()
	var found struct{ Faults []Fault }
	f.g.Control("GET", "/faults", nil, &found)
	return found.Faults
}

// Remove removes a fault.
func (f Faults) Remove(fault Fault) {
	f.g.t.Helper()
	f.g.Control("DELETE", fmt.Sprintf("/faults/%d", fault.ID), nil, nil)
}

// Clock is the time of the mock and of the gateway, in this namespace.
type Clock struct{ g *Gateway }

// Now is the time.
func (c Clock) Now() time.Time {
	c.g.t.Helper()
	var now struct{ Now time.Time }
	c.g.Control("GET", "/time", nil, &now)
	return now.Now
}

// Advance moves it forward.
func (c Clock) Advance(by time.Duration) {
	c.g.t.Helper()
	c.g.Control("POST", "/time/advance", Members{"by": fmt.Sprintf("%dms", by.Milliseconds())}, nil)
}

// Set sets it.
func (c Clock) Set(now time.Time) {
	c.g.t.Helper()
	c.g.Control("PUT", "/time", Members{"now": now}, nil)
}

// Journal is the calls of the gateway to the IAM.
type Journal struct{ g *Gateway }

// Calls returns the calls that match.
func (j Journal) Calls(filter Filter) []Call {
	j.g.t.Helper()
	return j.entries("/journal", filter.query())
}

// Wait waits for this number of calls, at most 60 s, and returns those that there are.
func (j Journal) Wait(count int, timeout time.Duration, filter Filter) []Call {
	j.g.t.Helper()
	query := filter.query()
	query.Set("count", strconv.Itoa(count))
	query.Set("timeout", fmt.Sprintf("%dms", timeout.Milliseconds()))
	return j.entries("/journal/wait", query)
}

func (j Journal) entries(path string, query url.Values) []Call {
	j.g.t.Helper()
	var found struct{ Entries []Call }
	j.g.Control("GET", path+"?"+query.Encode(), nil, &found)
	return found.Entries
}

func (f Filter) query() url.Values {
	query := url.Values{"limit": {"10000"}}
	for name, value := range map[string]string{
		"operation": f.Operation, "user": f.User, "outcome": f.Outcome, "request_id": f.RequestID, "session": f.Session,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// start sets running. The issuer is the URL of the listener, so that services find the keys by discovery.
func start() (stop func(), err error) {
	if at, management := os.Getenv("GATEWAY_URL"), os.Getenv("GATEWAY_MANAGEMENT_URL"); at != "" && management != "" {
		issuer, err := issuerOf(at)
		running = Address{URL: at, ManagementURL: management, Issuer: issuer}
		return func() {}, err
	}
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	program := os.Getenv("GATEWAY_BIN")
	if program == "" {
		program = "auth-gateway-dev"
	}
	settings := map[string]string{
		"http.listen": listen, "http.public_url": "http://" + listen, "management.listen": "127.0.0.1:0", "log.format": "json",
	}
	for name, value := range Settings {
		settings[name] = value
	}
	command := exec.Command(program)
	command.Env = os.Environ()
	for name, value := range settings {
		name = "AUTH_GATEWAY__" + strings.ReplaceAll(strings.ToUpper(name), ".", "__")
		command.Env = append(command.Env, name+"="+value)
	}
	log := &log{listening: make(chan string, 1)}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case management := <-log.listening:
		running = Address{URL: "http://" + listen, ManagementURL: "http://" + management, Issuer: "http://" + listen}
	case err := <-ended:
		return nil, fmt.Errorf("%s: %w\n%s", program, err, log.text())
	}
	return func() {
		_ = command.Process.Signal(os.Interrupt)
		<-ended
	}, nil
}

// log keeps what the program writes until both listeners accept connections, which one line reports.
type log struct {
	mutex     sync.Mutex
	written   bytes.Buffer
	listening chan string
	found     bool
}

func (l *log) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.found {
		return len(text), nil
	}
	l.written.Write(text)
	for _, line := range bytes.Split(l.written.Bytes(), []byte("\n")) {
		var entry struct {
			Message    string `json:"message"`
			Management string `json:"management.address"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Message == "listening" {
			l.found = true
			l.listening <- entry.Management
		}
	}
	return len(text), nil
}

func (l *log) text() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.written.String()
}

func freeAddress() (string, error) {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return probe.Addr().String(), probe.Close()
}

func issuerOf(at string) (string, error) {
	response, err := http.Get(at + "/.well-known/oauth-authorization-server")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var metadata struct{ Issuer string }
	err = json.NewDecoder(response.Body).Decode(&metadata)
	return metadata.Issuer, err
}
