// Package authgateway is a client of the authentication gateway. Copy this file: it needs Go 1.22 or later and nothing
// else.
//
//	gateway := authgateway.New("https://auth.example.com", authgateway.Options{})
//	session, err := gateway.LogIn(ctx, authgateway.Credentials{Email: "alice@example.test", Password: "alice-pass"})
//	token, err := session.AccessToken(ctx, "urn:shop:orders:order:read") // before each request to a service; it is cached
//	err = session.LogOut(ctx)
//
// All methods can be called by several goroutines at once. Every failure of a call is an *Error, except the error of a
// context that has ended: errors.Is(err, authgateway.SessionOver).
package authgateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// A token is renewed after 70 to 85 % of its lifetime, at random, so that clients do not renew together. It is not
	// used in the last 5 %, so that it does not expire on the way to a service.
	renewAfter, renewJitter, usableFor = 0.7, 0.15, 0.95
	// After a failed renewal, while the old token can be used.
	renewalPause = 5 * time.Second
	// Before each repetition: half of the backoff to all of it, in addition to Retry-After. It doubles each time.
	backoffMin, backoffMax = 250 * time.Millisecond, 4 * time.Second
	// The gateway closes a connection after 15 s without a request.
	idleConnection = 10 * time.Second
	responseBytes  = 1 << 20
)

// Kind of an Error, for errors.Is.
type Kind string

const (
	// InvalidCredentials : the login was refused. Ask the user again.
	InvalidCredentials Kind = "the credentials are not accepted"
	// SessionOver : the session has ended. The user must log in again.
	SessionOver Kind = "the session has ended"
	// Unavailable : all repetitions failed, or the call may not be repeated. Try later, after RetryAfter if it is not 0.
	Unavailable Kind = "the gateway is not available"
	// RequestRefused : the program or its configuration is wrong. A repetition is useless.
	RequestRefused Kind = "the request is refused"
	// GatewayFault : the gateway or its IAM has a fault that a repetition does not remove. Report it with the RequestID.
	GatewayFault Kind = "the gateway has a fault"
)

func (kind Kind) Error() string { return string(kind) }

// Error of a call. The gateway's log has the RequestID.
type Error struct {
	Kind       Kind
	Status     int    // 0 without a response.
	Code       string // The member `error` of the response.
	RequestID  string
	RetryAfter time.Duration
	detail     string
	risk       risk
}

func (e *Error) Error() string {
	text := string(e.Kind) + ": " + e.detail
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

func (e *Error) Unwrap() error { return e.Kind }

// Whether a failed call may have had an effect. A call is repeated up to the risk that it can take.
type risk int

const (
	never        risk = iota
	notProcessed      // It had no effect.
	accepted          // Perhaps; the gateway says that it may be repeated.
	unknown           // Perhaps; the gateway did not respond.

	// A one-time password is used up once it reached the IAM. Exchanges and logouts have the same effect when repeated.
	loginRisk, otpLoginRisk, idempotentRisk = accepted, notProcessed, unknown
)

// Options with a default for each zero value.
type Options struct {
	Attempt  time.Duration // Bounds each request. Default: 10 s.
	Deadline time.Duration // Bounds a call with all repetitions. Default: 20 s.
	Timing   *Timing       // For tests.
}

// Timing is time and randomness.
type Timing struct {
	Now    func() time.Time
	Sleep  func(context.Context, time.Duration) error
	Random func() float64 // From 0 to 1.
}

// Gateway makes sessions.
type Gateway struct {
	url               string
	client            *http.Client
	attempt, deadline time.Duration
	timing            Timing
}

// New makes a client of the gateway at this URL.
func New(url string, options Options) *Gateway {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.IdleConnTimeout = idleConnection
	// A redirect would send the password or the session elsewhere.
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	gateway := &Gateway{strings.TrimSuffix(url, "/"), client, options.Attempt, options.Deadline, Timing{time.Now, sleep, rand.Float64}}
	if gateway.attempt == 0 {
		gateway.attempt = 10 * time.Second
	}
	if gateway.deadline == 0 {
		gateway.deadline = 20 * time.Second
	}
	if options.Timing != nil {
		gateway.timing = *options.Timing
	}
	return gateway
}

// Credentials of a login.
type Credentials struct {
	Email, Password string
	OTP             string // The one-time password, empty for users who have none.
	ClientAddress   string // A server sets the user's address, by which the gateway limits logins.
}

// Format prints the address only.
func (c Credentials) Format(state fmt.State, _ rune) { fmt.Fprintf(state, "Credentials(%s)", c.Email) }

// LogIn makes a session.
func (g *Gateway) LogIn(ctx context.Context, credentials Credentials) (*Session, error) {
	body, risk := map[string]string{"email": credentials.Email, "password": credentials.Password}, loginRisk
	if credentials.OTP != "" {
		body["otp"], risk = credentials.OTP, otpLoginRisk
	}
	headers := http.Header{}
	if credentials.ClientAddress != "" {
		headers.Set("X-Forwarded-For", credentials.ClientAddress)
	}
	content, err := g.call(ctx, "login", body, headers, risk, nil)
	if err != nil {
		return nil, err
	}
	values, err := texts(content, "session_id", "session_token", "expires_at")
	if err != nil {
		return nil, err
	}
	return g.Resume(values[0], values[1], values[2]), nil
}

// Resume continues a session that was stored.
func (g *Gateway) Resume(sessionID, sessionToken, expiresAt string) *Session {
	return &Session{
		ID: sessionID, ExpiresAt: expiresAt, token: &sessionToken, gateway: g,
		tokens: map[string]*cached{}, exchanges: map[string]*exchange{},
	}
}

// AccessToken prints without its value.
type AccessToken struct {
	Scope string  // What was granted, which can be less than what was requested.
	value *string // A pointer, so that no form of printing has the text.
}

// Value is the text for the header Authorization.
func (t AccessToken) Value() string { return *t.value }

// Session : store ID and Token to continue with Resume. The token is a secret like a password, and is not printed.
type Session struct {
	ID, ExpiresAt string
	token         *string // A pointer, so that no form of printing has the text.
	gateway       *Gateway

	mutex     sync.Mutex
	over      bool
	tokens    map[string]*cached
	exchanges map[string]*exchange // Those in progress.
}

type cached struct {
	token                AccessToken
	renewAt, usableUntil time.Time
}

type exchange struct {
	done  chan struct{}
	token AccessToken
	err   error
}

// Format prints the ID only.
func (s *Session) Format(state fmt.State, _ rune) { fmt.Fprintf(state, "Session(%s)", s.ID) }

// Token is the session token.
func (s *Session) Token() string { return *s.token }

// AccessToken returns a token from the cache or of a new exchange. Concurrent calls with the same scope share one
// exchange, which continues if the context of its first caller ends.
func (s *Session) AccessToken(ctx context.Context, scope string) (AccessToken, error) {
	s.mutex.Lock()
	if err := s.requireActive(); err != nil {
		s.mutex.Unlock()
		return AccessToken{}, err
	}
	old, running, now := s.tokens[scope], s.exchanges[scope], s.gateway.timing.Now()
	usable := old != nil && now.Before(old.usableUntil)
	if usable && (running != nil || now.Before(old.renewAt)) {
		s.mutex.Unlock()
		return old.token, nil
	}
	if running == nil {
		running = &exchange{done: make(chan struct{})}
		s.exchanges[scope] = running
		if !usable {
			old = nil
		}
		go s.run(context.WithoutCancel(ctx), scope, old, running)
	}
	s.mutex.Unlock()
	select {
	case <-running.done:
		return running.token, running.err
	case <-ctx.Done():
		return AccessToken{}, ctx.Err()
	}
}

// Discard removes a token that a service refused with 401, so that the next call makes a new one.
func (s *Session) Discard(token AccessToken) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for scope, cached := range s.tokens {
		if cached.token == token {
			delete(s.tokens, scope)
		}
	}
}

// LogOut ends the session here at once, also if the call fails. It can be repeated.
func (s *Session) LogOut(ctx context.Context) error {
	s.end()
	_, err := s.gateway.call(ctx, "logout", s.pair(), http.Header{}, idempotentRisk, nil)
	return err
}

// run makes the exchange. With an old token that can still be used, it makes one attempt only.
func (s *Session) run(ctx context.Context, scope string, old *cached, running *exchange) {
	risk := idempotentRisk
	if old != nil {
		risk = never
	}
	token, err := s.exchange(ctx, scope, risk)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var failure *Error
	// Unless a service has refused the old token during the exchange.
	if old != nil && s.tokens[scope] == old && errors.As(err, &failure) && failure.Kind != SessionOver {
		old.renewAt = s.gateway.timing.Now().Add(max(renewalPause, failure.RetryAfter))
		token, err = old.token, nil
	}
	if over := s.requireActive(); over != nil { // A logout during the exchange.
		token, err = AccessToken{}, over
	}
	running.token, running.err = token, err
	delete(s.exchanges, scope)
	close(running.done)
}

func (s *Session) exchange(ctx context.Context, scope string, risk risk) (AccessToken, error) {
	timing, body := s.gateway.timing, s.pair()
	body["grant_type"], body["scope"] = "session", scope
	sentAt := timing.Now()
	content, err := s.gateway.call(ctx, "token", body, http.Header{}, risk, s.isOver)
	if err != nil {
		if errors.Is(err, SessionOver) {
			s.end()
		}
		return AccessToken{}, err
	}
	values, err := texts(content, "access_token", "scope")
	if err != nil {
		return AccessToken{}, err
	}
	seconds, isNumber := content["expires_in"].(float64)
	if !isNumber {
		return AccessToken{}, &Error{Kind: GatewayFault, Status: http.StatusOK, detail: "the response has no lifetime"}
	}
	token := AccessToken{values[1], &values[0]}
	after := func(share float64) time.Time {
		return sentAt.Add(time.Duration(seconds * share * float64(time.Second)))
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.over {
		s.tokens[scope] = &cached{token, after(renewAfter + renewJitter*timing.Random()), after(usableFor)}
	}
	return token, nil
}

func (s *Session) pair() map[string]string {
	return map[string]string{"session_id": s.ID, "session_token": *s.token}
}

func (s *Session) requireActive() error {
	if s.over {
		return &Error{Kind: SessionOver, detail: "no request was made"}
	}
	return nil
}

func (s *Session) isOver() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.requireActive()
}

func (s *Session) end() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.over = true
	s.tokens = map[string]*cached{}
}

// call returns the response, after repetitions as far as the risk allows them.
func (g *Gateway) call(
	ctx context.Context, operation string, body map[string]string, headers http.Header, limit risk, beforeRepetition func() error,
) (map[string]any, error) {
	deadline := g.timing.Now().Add(g.deadline)
	for backoff := backoffMin; ; backoff = min(2*backoff, backoffMax) {
		content, err := g.try(ctx, operation, body, headers, min(g.attempt, deadline.Sub(g.timing.Now())))
		var failure *Error
		if !errors.As(err, &failure) || failure.Kind != Unavailable || failure.risk > limit {
			return content, err
		}
		pause := failure.RetryAfter + time.Duration(float64(backoff)*(1+g.timing.Random())/2)
		if !g.timing.Now().Add(pause).Before(deadline) {
			return nil, err
		}
		if ended := g.timing.Sleep(ctx, pause); ended != nil {
			return nil, ended
		}
		if beforeRepetition != nil {
			if over := beforeRepetition(); over != nil {
				return nil, over
			}
		}
		if !g.timing.Now().Before(deadline) {
			return nil, err
		}
	}
}

func (g *Gateway) try(
	ctx context.Context, operation string, body map[string]string, headers http.Header, bound time.Duration,
) (map[string]any, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	attempt, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	request, err := http.NewRequestWithContext(attempt, http.MethodPost, g.url+"/api/v1/auth/"+operation, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header = headers.Clone()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := g.client.Do(request)
	if err == nil {
		defer response.Body.Close()
		text, err = io.ReadAll(io.LimitReader(response.Body, responseBytes))
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &Error{Kind: Unavailable, detail: err.Error(), risk: unknown}
	}
	content := map[string]any{}
	// The error of the parser is left out: it could quote the text, which can have secrets.
	if json.Unmarshal(text, &content) != nil {
		content = nil
	}
	if response.StatusCode == http.StatusOK {
		return content, nil
	}
	return nil, failureOf(operation, response.StatusCode, content, response.Header.Get("Retry-After"))
}

func failureOf(operation string, status int, content map[string]any, retryAfter string) *Error {
	code, _ := content["error"].(string)
	requestID, _ := content["request_id"].(string)
	failure := &Error{Status: status, Code: code, RequestID: requestID, detail: fmt.Sprintf("%s: status %d", operation, status)}
	if seconds, err := strconv.ParseUint(retryAfter, 10, 31); err == nil {
		failure.RetryAfter = time.Duration(seconds) * time.Second
	}
	isGateway := status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
	switch {
	case status == http.StatusRequestTimeout || status == http.StatusTooManyRequests:
		failure.Kind, failure.risk = Unavailable, notProcessed
	case code == "temporarily_unavailable":
		failure.Kind, failure.risk = Unavailable, accepted
	case isGateway && code == "": // Of a proxy.
		failure.Kind, failure.risk = Unavailable, unknown
	case status == http.StatusUnauthorized && code == "invalid_grant" && operation == "login":
		failure.Kind = InvalidCredentials
	case status == http.StatusUnauthorized && code == "invalid_grant":
		failure.Kind = SessionOver
	case status >= 400 && status < 500:
		failure.Kind = RequestRefused
		if description, _ := content["error_description"].(string); description != "" {
			failure.detail += ": " + description
		}
	default:
		failure.Kind = GatewayFault
	}
	return failure
}

func texts(content map[string]any, names ...string) ([]string, error) {
	values := make([]string, len(names))
	for index, name := range names {
		value, isText := content[name].(string)
		if !isText {
			return nil, &Error{Kind: GatewayFault, Status: http.StatusOK, detail: "the response has no " + name}
		}
		values[index] = value
	}
	return values, nil
}

func sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
