// Logs in, exchanges the session, reads discovery and logs out, with the generated client: example GATEWAY_URL
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sort"
	"strings"

	"example/authgateway"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	configuration := authgateway.NewConfiguration()
	configuration.Servers = authgateway.ServerConfigurations{{URL: url}}
	client := authgateway.NewAPIClient(configuration)
	authentication, discovery := client.AuthenticationAPI, client.DiscoveryAPI

	wrong := authgateway.NewCredentials("alice@example.test", "not her password")
	_, _, err := authentication.Login(ctx).Credentials(*wrong).Execute()
	refusal, err := invalidGrant(err)
	if err != nil {
		return err
	}
	fmt.Println("wrong password:", refusal.Error)

	credentials := authgateway.NewCredentials("alice@example.test", "alice-pass")
	session, _, err := authentication.Login(ctx).Credentials(*credentials).Execute()
	if err != nil {
		return err
	}
	exchange := authgateway.NewExchange(session.SessionId, session.SessionToken, "session")
	exchange.SetScope("urn:shop:orders:order:read urn:shop:vault:key:read")
	token, _, err := authentication.Exchange(ctx).Exchange(*exchange).Execute()
	if err != nil {
		return err
	}
	fmt.Println("granted:", token.Scope)
	fmt.Println("lifetime:", token.ExpiresIn)

	metadata, _, err := discovery.Metadata(ctx).Execute()
	if err != nil {
		return err
	}
	fmt.Println("issuer:", metadata.Issuer)
	jwks, _, err := discovery.Jwks(ctx).Execute()
	if err != nil {
		return err
	}
	keys := []string{}
	for _, jwk := range jwks.Keys {
		switch key := jwk.GetActualInstance().(type) {
		case *authgateway.EcKey:
			keys = append(keys, key.Alg+"="+key.Kid)
		case *authgateway.EdKey:
			keys = append(keys, key.Alg+"="+key.Kid)
		case *authgateway.RsaKey:
			keys = append(keys, key.Alg+"="+key.Kid)
		}
	}
	sort.Strings(keys)
	fmt.Println("keys:", strings.Join(keys, " "))

	pair := authgateway.NewSessionPair(session.SessionId, session.SessionToken)
	ended, _, err := authentication.Logout(ctx).SessionPair(*pair).Execute()
	if err != nil {
		return err
	}
	fmt.Println("logout:", ended.Status)
	_, _, err = authentication.Exchange(ctx).Exchange(*exchange).Execute()
	refusal, err = invalidGrant(err)
	if err != nil {
		return err
	}
	fmt.Println("ended session:", refusal.Error)
	return nil
}

// invalidGrant returns the body of a 401; any other outcome of a call is an error.
func invalidGrant(err error) (authgateway.InvalidGrant, error) {
	var response *authgateway.GenericOpenAPIError
	if errors.As(err, &response) {
		if refusal, ok := response.Model().(authgateway.InvalidGrant); ok {
			return refusal, nil
		}
	}
	return authgateway.InvalidGrant{}, fmt.Errorf("not a 401: %w", err)
}
