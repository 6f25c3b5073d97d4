// A service with golang-jwt and keyfunc. ISSUER is the URL of the gateway, AUDIENCE this service in the claim `aud`.
//
// It also verifies tokens for a proxy, which asks `GET /verify?scope=SCOPE` before it forwards a request.
package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
)

var issuer, audience = os.Getenv("ISSUER"), os.Getenv("AUDIENCE")

func main() {
	// In seconds. At most `keys.jwks_max_age` of the gateway.
	maxAge, err := time.ParseDuration(cmp.Or(os.Getenv("KEYS_MAX_AGE"), "300") + "s")
	if err != nil {
		log.Fatal(err)
	}
	jwksURI, err := discover()
	if err != nil {
		log.Fatal(err)
	}
	keys, err := keyfunc.NewDefaultOverrideCtx(context.Background(), []string{jwksURI}, keyfunc.Override{
		HTTPTimeout:     10 * time.Second,
		RefreshInterval: maxAge,
		// keyfunc fetches the keys for an unknown key id at most once in five minutes. A request waits this long for that.
		RateLimitWaitMax: 10 * time.Second,
		// False. Otherwise it starts also if the keys cannot be read, and refuses every token with 401.
		NoErrorReturnFirstHTTPReq: new(bool),
	})
	if err != nil {
		log.Fatal(err)
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{"ES256", "EdDSA", "RS256"}),
		jwt.WithIssuer(issuer),
		jwt.WithAudience(audience),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
	)
	verify := func(r *http.Request) (jwt.MapClaims, error) {
		raw, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			return nil, fmt.Errorf("no token")
		}
		claims := jwt.MapClaims{}
		token, err := parser.ParseWithClaims(raw, claims, keys.Keyfunc)
		// golang-jwt does not check the type of the token.
		if err == nil && token.Header["typ"] != "at+jwt" {
			err = fmt.Errorf("not an access token")
		}
		return claims, err
	}
	require := func(scope string, handle func(http.ResponseWriter, jwt.MapClaims)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			claims, err := verify(r)
			if err != nil {
				refuse(w, http.StatusUnauthorized, `Bearer error="invalid_token"`)
				return
			}
			granted, _ := claims["scope"].(string)
			if !slices.Contains(strings.Split(granted, " "), scope) {
				refuse(w, http.StatusForbidden, `Bearer error="insufficient_scope", scope="`+scope+`"`)
				return
			}
			handle(w, claims)
		}
	}
	http.HandleFunc("GET /orders", require("urn:shop:orders:order:read", func(w http.ResponseWriter, claims jwt.MapClaims) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(claims)
	}))
	http.HandleFunc("GET /verify", func(w http.ResponseWriter, r *http.Request) {
		scope := r.FormValue("scope")
		// A location of the proxy that forgets its scope. A token without a scope would have it.
		if scope == "" {
			http.Error(w, "no scope", http.StatusBadRequest)
			return
		}
		require(scope, func(w http.ResponseWriter, claims jwt.MapClaims) {
			text, _ := json.Marshal(claims)
			w.Header().Set("Claims", base64.RawURLEncoding.EncodeToString(text))
		})(w, r)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+cmp.Or(os.Getenv("PORT"), "8080"), nil))
}

func discover() (string, error) {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(issuer + "/.well-known/oauth-authorization-server")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var metadata struct {
		Issuer  string `json:"issuer"`
		JwksURI string `json:"jwks_uri"`
	}
	if err := json.NewDecoder(response.Body).Decode(&metadata); err != nil {
		return "", err
	}
	if metadata.Issuer != issuer {
		return "", fmt.Errorf("the issuer of %s is %s", issuer, metadata.Issuer)
	}
	return metadata.JwksURI, nil
}

func refuse(w http.ResponseWriter, status int, challenge string) {
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, http.StatusText(status), status)
}
