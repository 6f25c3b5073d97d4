// Writes a Kubernetes object as JSON, from the protocol buffers that clients send.
package main

import (
	"encoding/json"
	"io"
	"log"
	"os"

	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	if err := json.NewEncoder(os.Stdout).Encode(object); err != nil {
		log.Fatal(err)
	}
}
