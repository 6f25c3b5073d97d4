// Verifies an access token from discovery alone, with go-jose: verify ISSUER AUDIENCE < token
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

var allowed = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256}

func main() {
	log.SetFlags(0)
	issuer, audience := os.Args[1], os.Args[2]
	token, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	keys, err := discover(issuer)
	if err != nil {
		log.Fatal(err)
	}
	claims, err := verify(strings.TrimSpace(string(token)), keys, issuer, audience)
	if err != nil {
		fmt.Fprintln(os.Stderr, "refused:", err)
		os.Exit(3)
	}
	json.NewEncoder(os.Stdout).Encode(claims)
}

func discover(issuer string) (keys jose.JSONWebKeySet, err error) {
	var metadata struct {
		Issuer  string `json:"issuer"`
		JwksURI string `json:"jwks_uri"`
	}
	if err = fetch(issuer+"/.well-known/oauth-authorization-server", &metadata); err != nil {
		return keys, err
	}
	if metadata.Issuer != issuer {
		return keys, fmt.Errorf("the metadata at %s has the issuer %s", issuer, metadata.Issuer)
	}
	return keys, fetch(metadata.JwksURI, &keys)
}

func fetch(url string, into any) error {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}

func verify(token string, keys jose.JSONWebKeySet, issuer, audience string) (map[string]any, error) {
	parsed, err := jwt.ParseSigned(token, allowed)
	if err != nil {
		return nil, err
	}
	header := parsed.Headers[0]
	if header.ExtraHeaders[jose.HeaderType] != "at+jwt" {
		return nil, errors.New("not an access token")
	}
	candidates := keys.Key(header.KeyID)
	if len(candidates) != 1 || candidates[0].Algorithm != header.Algorithm {
		return nil, errors.New("no key with this kid and algorithm")
	}
	var standard jwt.Claims
	var all map[string]any
	if err := parsed.Claims(candidates[0].Key, &standard, &all); err != nil {
		return nil, err
	}
	// go-jose checks `exp` only if the token has one; RFC 9068 section 2.2 requires it.
	if standard.Expiry == nil {
		return nil, errors.New("a token without an expiry")
	}
	expected := jwt.Expected{Issuer: issuer, AnyAudience: jwt.Audience{audience}, Time: time.Now()}
	return all, standard.ValidateWithLeeway(expected, 0)
}
