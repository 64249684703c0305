{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{- define "fairlead.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "fairlead.selector" -}}
k8s-app: {{ .Release.Name }}
{{- end -}}

{{- define "fairlead.labels" -}}
{{ include "fairlead.selector" . }}
app.kubernetes.io/name: fairlead
app.kubernetes.io/component: service-proxy
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "fairlead.healthPort" -}}
{{ .Values.ports.health | default (has .Values.mode (list "beside" "shadow") | ternary 10266 10256) }}
{{- end -}}

{{- define "fairlead.metricsPort" -}}
{{ .Values.ports.metrics | default (has .Values.mode (list "beside" "shadow") | ternary 10267 10249) }}
{{- end -}}

{{- define "fairlead.env" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end -}}

{{/* Flags that the settings of the node depend on, too. */}}
{{- define "fairlead.args" -}}
- --hostname-override=$(NODE_NAME)
{{- if .Values.kubeProxyConfig }}
- --config=/var/lib/kube-proxy/config.conf
{{- end }}
{{- if eq .Values.mode "beside" }}
- --conntrack-max-per-core=0
- --conntrack-tcp-timeout-established=0s
- --conntrack-tcp-timeout-close-wait=0s
{{- end }}
{{- end -}}

{{/* What values.schema.json cannot say: values that contradict each other. */}}
{{- define "fairlead.check" -}}
{{- with .Values }}
{{- if and .kubeProxyConfig (eq .mode "beside") }}
{{- fail "kubeProxyConfig: true is for mode: replace; beside kube-proxy its ports are taken" }}
{{- end }}
{{- if and .kubeProxyConfig (or (ne .metricsAddress "127.0.0.1") .ports.health .ports.metrics .clusterCIDR) }}
{{- fail "metricsAddress, ports and clusterCIDR have no effect with kubeProxyConfig: true; set them in the ConfigMap kube-proxy" }}
{{- end }}
{{- if and (eq .engine "userspace") (or .privileges.prepareNode .privileges.destroyStaleSockets .privileges.connectStaleSockets) (has .mode (list "replace" "beside")) }}
{{- fail "engine: userspace has no privileges; leave privileges.prepareNode, destroyStaleSockets and connectStaleSockets false" }}
{{- end }}
{{- if and .podMonitor.enabled (eq .metricsAddress "127.0.0.1") }}
{{- fail "podMonitor.enabled needs metricsAddress: 0.0.0.0, so that Prometheus can reach the metrics" }}
{{- end }}
{{- end }}
{{- end -}}
