// Decodes objects of the Prometheus Operator, JSON on standard input, and refuses unknown fields and wrong types.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

func main() {
	objects := json.NewDecoder(os.Stdin)
	for {
		var object json.RawMessage
		if err := objects.Decode(&object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			refuse(err)
		}
		if err := check(object); err != nil {
			refuse(err)
		}
	}
}

func check(object json.RawMessage) error {
	var header struct{ Kind, APIVersion string }
	if err := json.Unmarshal(object, &header); err != nil {
		return err
	}
	if header.APIVersion != monitoring.SchemeGroupVersion.String() {
		return fmt.Errorf("%s: unknown apiVersion %s", header.Kind, header.APIVersion)
	}
	switch header.Kind {
	case monitoring.ServiceMonitorsKind:
		return strict(object, &monitoring.ServiceMonitor{})
	case monitoring.PrometheusRuleKind:
		return strict(object, &monitoring.PrometheusRule{})
	default:
		return fmt.Errorf("unknown kind %s", header.Kind)
	}
}

func strict(object json.RawMessage, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.DisallowUnknownFields()
	return decoder.Decode(target)
}

func refuse(err error) {
	fmt.Println(err)
	os.Exit(1)
}
