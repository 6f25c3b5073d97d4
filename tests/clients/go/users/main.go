// Creates a user of the mock with attributes and reads it back, with the generated client: users MANAGEMENT_URL
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"example/mockcontrol"
)

func main() {
	log.SetFlags(0)
	configuration := mockcontrol.NewConfiguration()
	configuration.Servers = mockcontrol.ServerConfigurations{{URL: os.Args[1]}}
	users := mockcontrol.NewAPIClient(configuration).UsersAPI
	ctx := context.Background()

	carol := mockcontrol.NewUserToCreate("carol@example.test", "carol-pass")
	carol.SetAttributes(map[string]any{
		"address": map[string]any{"country": "PT"}, "department": "sales", "level": 7, "staff": true,
		"teams": []string{"blue", "green"},
	})
	if _, _, err := users.CreateUser(ctx).UserToCreate(*carol).Execute(); err != nil {
		log.Fatal(err)
	}
	user, _, err := users.ShowUser(ctx, "carol@example.test").Execute()
	if err != nil {
		log.Fatal(err)
	}
	// In alphabetical order.
	if err := json.NewEncoder(os.Stdout).Encode(user.Attributes); err != nil {
		log.Fatal(err)
	}
}
