// A service with go-oidc. ISSUER is the URL of the gateway, AUDIENCE this service in the claim `aud`.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

var config = &oidc.Config{
	ClientID: os.Getenv("AUDIENCE"),
	// Without the list, go-oidc accepts RS256 only, because the discovery document has no algorithms of ID tokens.
	SupportedSigningAlgs: []string{oidc.ES256, oidc.EdDSA, oidc.RS256},
}

var verifier atomic.Pointer[oidc.IDTokenVerifier]

func main() {
	ctx := oidc.ClientContext(context.Background(), &http.Client{Timeout: 10 * time.Second})
	provider, err := oidc.NewProvider(ctx, os.Getenv("ISSUER"))
	if err != nil {
		log.Fatal(err)
	}
	// In seconds. At most `keys.jwks_max_age` of the gateway.
	maxAge, err := time.ParseDuration(cmp.Or(os.Getenv("KEYS_MAX_AGE"), "300") + "s")
	if err != nil {
		log.Fatal(err)
	}
	verifier.Store(provider.VerifierContext(ctx, config))
	// A verifier keeps a key for ever. A new one fetches the keys at its first token.
	go func() {
		for range time.Tick(maxAge) {
			verifier.Store(provider.VerifierContext(ctx, config))
		}
	}()

	http.HandleFunc("GET /orders", require("urn:shop:orders:order:read", func(w http.ResponseWriter, r *http.Request, claims json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(claims)
	}))
	log.Fatal(http.ListenAndServe("127.0.0.1:"+cmp.Or(os.Getenv("PORT"), "8080"), nil))
}

func require(scope string, handle func(http.ResponseWriter, *http.Request, json.RawMessage)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status int, challenge string) {
			w.Header().Set("WWW-Authenticate", challenge)
			http.Error(w, http.StatusText(status), status)
		}
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			refuse(http.StatusUnauthorized, "Bearer")
			return
		}
		verified, err := verifier.Load().Verify(r.Context(), token)
		if err != nil || !isAccessToken(token) {
			refuse(http.StatusUnauthorized, `Bearer error="invalid_token"`)
			return
		}
		var claims json.RawMessage
		var granted struct {
			Scope string `json:"scope"`
		}
		if verified.Claims(&claims) != nil || verified.Claims(&granted) != nil {
			refuse(http.StatusUnauthorized, `Bearer error="invalid_token"`)
			return
		}
		if !slices.Contains(strings.Split(granted.Scope, " "), scope) {
			refuse(http.StatusForbidden, `Bearer error="insufficient_scope", scope="`+scope+`"`)
			return
		}
		handle(w, r, claims)
	}
}

// isAccessToken checks the type of a verified token, because go-oidc does not.
func isAccessToken(token string) bool {
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256})
	return err == nil && parsed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType] == "at+jwt"
}
