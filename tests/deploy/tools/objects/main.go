// Checks Kubernetes objects, JSON on standard input: those of the Prometheus Operator and of the Gateway API have only fields
// that exist, with values of their types, and pods fulfil the Pod Security Standard "restricted".
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
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
	switch header.APIVersion + " " + header.Kind {
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return strict(object, &monitoring.ServiceMonitor{})
	case "monitoring.coreos.com/v1 PrometheusRule":
		return strict(object, &monitoring.PrometheusRule{})
	case "gateway.networking.k8s.io/v1 HTTPRoute":
		return strict(object, &gateway.HTTPRoute{})
	case "apps/v1 Deployment":
		var deployment apps.Deployment
		if err := strict(object, &deployment); err != nil {
			return err
		}
		return restricted(deployment.Spec.Template)
	case "batch/v1 CronJob":
		var job batch.CronJob
		if err := strict(object, &job); err != nil {
			return err
		}
		return restricted(job.Spec.JobTemplate.Spec.Template)
	default:
		return fmt.Errorf("unknown kind %s %s", header.APIVersion, header.Kind)
	}
}

func strict(object json.RawMessage, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.DisallowUnknownFields()
	return decoder.Decode(target)
}

func restricted(pod core.PodTemplateSpec) error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
	if !result.Allowed {
		return fmt.Errorf("pod security: %s", result.ForbiddenDetail())
	}
	return nil
}

func refuse(err error) {
	fmt.Println(err)
	os.Exit(1)
}
