// Makes the calls that `tests/applications/run` requests, each in a goroutine: one JSON object a line in both directions.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"example.test/authgateway"
)

type command struct {
	ID        int     `json:"id"`
	Do        string  `json:"do"`
	URL       string  `json:"url"`
	Attempt   float64 `json:"attempt"`
	Deadline  float64 `json:"deadline"`
	Email     string  `json:"email"`
	Password  string  `json:"password"`
	OTP       string  `json:"otp"`
	Address   string  `json:"address"`
	SessionID string  `json:"session_id"`
	Token     string  `json:"session_token"`
	Scope     string  `json:"scope"`
	Seconds   float64 `json:"seconds"`
	Value     float64 `json:"value"`
}

type state struct {
	mutex    sync.Mutex
	advanced time.Duration
	random   float64
	pauses   []float64
	gateway  *authgateway.Gateway
	session  *authgateway.Session
	token    authgateway.AccessToken
}

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

func (s *state) locked(change func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	change()
}

func (s *state) now() (now time.Time) {
	s.locked(func() { now = time.Now().Add(s.advanced) })
	return now
}

func (s *state) sleep(_ context.Context, pause time.Duration) error {
	s.locked(func() {
		s.pauses = append(s.pauses, pause.Seconds())
		s.advanced += pause
	})
	return nil
}

func (s *state) chosen() (chosen float64) {
	s.locked(func() { chosen = s.random })
	return chosen
}

func (s *state) handle(c command) (any, error) {
	ctx := context.Background()
	switch c.Do {
	case "new":
		timing := &authgateway.Timing{Now: s.now, Sleep: s.sleep, Random: s.chosen}
		s.advanced, s.random, s.pauses = 0, 0.5, nil
		s.gateway = authgateway.New(c.URL, authgateway.Options{Attempt: seconds(c.Attempt), Deadline: seconds(c.Deadline), Timing: timing})
	case "login":
		session, err := s.gateway.LogIn(ctx, authgateway.Credentials{Email: c.Email, Password: c.Password, OTP: c.OTP, ClientAddress: c.Address})
		if err != nil {
			return nil, err
		}
		s.session = session
		return map[string]string{"session_id": session.ID, "session_token": session.Token(), "expires_at": session.ExpiresAt}, nil
	case "resume":
		s.session = s.gateway.Resume(c.SessionID, c.Token, "")
	case "token":
		token, err := s.session.AccessToken(ctx, c.Scope)
		if err != nil {
			return nil, err
		}
		s.locked(func() { s.token = token })
		return map[string]string{"value": token.Value(), "scope": token.Scope}, nil
	case "discard":
		s.session.Discard(s.token)
	case "logout":
		return nil, s.session.LogOut(ctx)
	case "advance":
		s.locked(func() { s.advanced += seconds(c.Seconds) })
	case "random":
		s.locked(func() { s.random = c.Value })
	case "pauses":
		made := append([]float64{}, s.pauses...)
		s.pauses = nil
		return made, nil
	case "shown":
		// Also as fields of a structure, where the methods of a type are not used for printing.
		fields := struct {
			session *authgateway.Session
			token   authgateway.AccessToken
		}{s.session, s.token}
		return everyForm(s.gateway) + everyForm(s.session) + everyForm(s.token) + everyForm(fields), nil
	default:
		return nil, fmt.Errorf("unknown: %s", c.Do)
	}
	return nil, nil
}

func everyForm(value any) string {
	text, _ := json.Marshal(value)
	return fmt.Sprintf("%v %+v %#v %s\n", value, value, value, text)
}

func kindOf(err error) string {
	for name, kind := range map[string]authgateway.Kind{
		"InvalidCredentials": authgateway.InvalidCredentials, "SessionOver": authgateway.SessionOver,
		"Unavailable": authgateway.Unavailable, "RequestRefused": authgateway.RequestRefused, "GatewayFault": authgateway.GatewayFault,
	} {
		if errors.Is(err, kind) {
			return name
		}
	}
	return "other"
}

func main() {
	s := &state{}
	answers := json.NewEncoder(os.Stdout)
	var writing sync.Mutex
	commands := bufio.NewScanner(os.Stdin)
	commands.Buffer(nil, 1<<20)
	for commands.Scan() {
		var c command
		if err := json.Unmarshal(commands.Bytes(), &c); err != nil {
			panic(err)
		}
		go func() {
			result, err := s.handle(c)
			answer := map[string]any{"id": c.ID, "result": result}
			if err != nil {
				answer = map[string]any{"id": c.ID, "error": kindOf(err), "shown": everyForm(err) + err.Error()}
				var failure *authgateway.Error
				if errors.As(err, &failure) {
					answer["code"], answer["request_id"] = failure.Code, failure.RequestID
					answer["retry_after"] = int(failure.RetryAfter.Seconds())
				}
			}
			writing.Lock()
			defer writing.Unlock()
			if err := answers.Encode(answer); err != nil {
				panic(err)
			}
		}()
	}
}
