{{/* The settings: those of plain Helm, covered by those of Deckhouse (key aiInference). */}}
{{- define "ai-inference.values" -}}
{{- $values := .Values | toYaml | fromYaml -}}
{{- mergeOverwrite (omit $values "global" "aiInference") ($values.aiInference | default dict) | toYaml -}}
{{- end -}}

{{- define "ai-inference.deckhouse" -}}
{{- if hasKey .Values "aiInference" -}}true{{- end -}}
{{- end -}}

{{- define "ai-inference.namespace" -}}
{{- if include "ai-inference.deckhouse" . -}}d8-ai-inference{{- else -}}{{ .Release.Namespace }}{{- end -}}
{{- end -}}

{{/* Labels of every object; argument: the component. */}}
{{- define "ai-inference.labels" -}}
heritage: deckhouse
module: ai-inference
app: {{ . }}
{{- end -}}

{{/* One of the module's images; argument: list context name reference; the name is that of Deckhouse's digest. */}}
{{- define "ai-inference.imageOf" -}}
{{- $context := index . 0 -}}
{{- $values := include "ai-inference.values" $context | fromYaml -}}
{{- $digest := dig "modulesImages" "digests" "aiInference" (index . 1) "" ($context.Values.global | default dict) -}}
{{- if index . 2 -}}
{{ index . 2 }}
{{- else if $digest -}}
{{- $base := $context.Values.global.modulesImages.registry.base -}}
{{- with dig "registry" "base" "" $values -}}
{{- $base = printf "%s/ai-inference" (trimSuffix "/" .) -}}
{{- end -}}
{{ $base }}@{{ $digest }}
{{- else -}}
{{ index . 1 | kebabcase }}:{{ $context.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "ai-inference.image" -}}
{{- $values := include "ai-inference.values" . | fromYaml -}}
{{- include "ai-inference.imageOf" (list . "aiInference" (dig "image" "reference" "" $values)) -}}
{{- end -}}

{{- define "ai-inference.gateImage" -}}
{{- $values := include "ai-inference.values" . | fromYaml -}}
{{- include "ai-inference.imageOf" (list . "gate" (dig "images" "gate" "" $values)) -}}
{{- end -}}

{{/* The runtimes' images by engine, as JSON. */}}
{{- define "ai-inference.runtimes" -}}
{{- $values := include "ai-inference.values" . | fromYaml -}}
{{- dict "llama" (include "ai-inference.imageOf" (list . "llama" (dig "images" "llama" "" $values))) | toJson -}}
{{- end -}}

{{/* Certificates of the module: the setting of Deckhouse for all modules, else the chart's. */}}
{{- define "ai-inference.https" -}}
{{- $values := include "ai-inference.values" . | fromYaml -}}
{{- $global := dig "modules" "https" dict (.Values.global | default dict) -}}
{{- if $global.mode -}}
mode: {{ $global.mode }}
clusterIssuerName: {{ dig "certManager" "clusterIssuerName" "" $global | quote }}
secretName: {{ dig "customCertificate" "secretName" "" $global | quote }}
{{- else -}}
mode: {{ dig "https" "mode" "CertManager" $values }}
clusterIssuerName: {{ dig "https" "clusterIssuerName" "selfsigned" $values | quote }}
secretName: {{ dig "https" "secretName" "" $values | quote }}
{{- end -}}
{{- end -}}

{{/* Host of an order by its name: under Deckhouse, <name>.services.<public domain>. */}}
{{- define "ai-inference.domainTemplate" -}}
{{- $values := include "ai-inference.values" . | fromYaml -}}
{{- $public := dig "modules" "publicDomainTemplate" "" (.Values.global | default dict) -}}
{{- dig "domainTemplate" "" $values | default (replace "%s" "%s.services" $public) -}}
{{- end -}}

{{/* What stands in every Pod, besides its containers and volumes; argument: list context values serviceAccount. */}}
{{- define "ai-inference.pod" -}}
{{- $values := index . 1 -}}
serviceAccountName: {{ index . 2 }}
automountServiceAccountToken: true
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 64535
  runAsGroup: 64535
  fsGroup: 64535
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What stands in every container, besides its command, ports, probes and mounts; argument: list context values. */}}
{{- define "ai-inference.container" -}}
{{- $values := index . 1 -}}
image: {{ include "ai-inference.image" (index . 0) }}
imagePullPolicy: {{ dig "image" "pullPolicy" "IfNotPresent" $values }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources:
  requests:
    cpu: 50m
    memory: 128Mi
    ephemeral-storage: 50Mi
{{- end -}}

{{/* argument: list port scheme */}}
{{- define "ai-inference.probes" -}}
livenessProbe:
  httpGet:
    path: /livez
    port: {{ index . 0 }}
    scheme: {{ index . 1 }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ index . 0 }}
    scheme: {{ index . 1 }}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}

{{/* Annotations of a hook's object that goes when the hook succeeded; argument: list events weight. */}}
{{- define "ai-inference.hook" -}}
helm.sh/hook: {{ index . 0 }}
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
