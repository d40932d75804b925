{{/* The settings: those of plain Helm, covered by those of Deckhouse (key aiModels). */}}
{{- define "ai-models.values" -}}
{{- $values := .Values | toYaml | fromYaml -}}
{{- mergeOverwrite (omit $values "global" "aiModels") ($values.aiModels | default dict) | toYaml -}}
{{- end -}}

{{- define "ai-models.deckhouse" -}}
{{- if hasKey .Values "aiModels" -}}true{{- end -}}
{{- end -}}

{{- define "ai-models.namespace" -}}
{{- if include "ai-models.deckhouse" . -}}d8-ai-models{{- else -}}{{ .Release.Namespace }}{{- end -}}
{{- end -}}

{{/* Labels of every object; argument: the component. */}}
{{- define "ai-models.labels" -}}
heritage: deckhouse
module: ai-models
app: {{ . }}
{{- end -}}

{{- define "ai-models.image" -}}
{{- $values := include "ai-models.values" . | fromYaml -}}
{{- $reference := dig "image" "reference" "" $values -}}
{{- $digest := dig "modulesImages" "digests" "aiModels" "aiModels" "" (.Values.global | default dict) -}}
{{- if $reference -}}
{{ $reference }}
{{- else if $digest -}}
{{- $base := .Values.global.modulesImages.registry.base -}}
{{- with dig "registry" "base" "" $values -}}
{{- $base = printf "%s/ai-models" (trimSuffix "/" .) -}}
{{- end -}}
{{ $base }}@{{ $digest }}
{{- else -}}
{{ .Chart.Name }}:{{ .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* RWX class for delivered models: the setting, then the two global ones of Deckhouse, then the cluster's default. */}}
{{- define "ai-models.sharedClass" -}}
{{- $values := include "ai-models.values" . | fromYaml -}}
{{- $global := .Values.global | default dict -}}
{{- coalesce (dig "delivery" "sharedPVCStorageClassName" "" $values) (dig "modules" "storageClass" "" $global) (dig "defaultClusterStorageClass" "" $global) | default "" -}}
{{- end -}}

{{- define "ai-models.embedded" -}}
{{- $values := include "ai-models.values" . | fromYaml -}}
{{- if not $values.artifacts -}}true{{- end -}}
{{- end -}}

{{/* Address under which users reach the gateway, or nothing. Under Deckhouse an Ingress has the module's own host. */}}
{{- define "ai-models.publicURL" -}}
{{- $values := include "ai-models.values" . | fromYaml -}}
{{- $own := dig "modules" "publicDomainTemplate" "" (.Values.global | default dict) -}}
{{- if dig "uploadGateway" "publicURL" "" $values -}}
{{ dig "uploadGateway" "publicURL" "" $values }}
{{- else if and $own (dig "uploadGateway" "ingress" "enabled" false $values) -}}
https://{{ replace "%s" "ai-models" $own }}
{{- end -}}
{{- end -}}

{{- define "ai-models.publicHost" -}}
{{- (urlParse (include "ai-models.publicURL" .)).hostname -}}
{{- end -}}

{{/* Secret with the certificate of the gateway's Ingress, or nothing. */}}
{{- define "ai-models.publicTLS" -}}
{{- $ingress := dig "uploadGateway" "ingress" dict (include "ai-models.values" . | fromYaml) -}}
{{- if $ingress.enabled -}}
{{- $ingress.tlsSecretName | default (ternary "ai-models-upload-gateway-public-tls" "" (not (empty $ingress.clusterIssuerName))) -}}
{{- end -}}
{{- end -}}

{{/* What stands in every Pod, besides its containers and volumes; argument: list context values serviceAccount token?. */}}
{{- define "ai-models.pod" -}}
{{- $values := index . 1 -}}
serviceAccountName: {{ index . 2 }}
automountServiceAccountToken: {{ index . 3 }}
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
{{- define "ai-models.container" -}}
{{- $values := index . 1 -}}
image: {{ include "ai-models.image" (index . 0) }}
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
{{- define "ai-models.probes" -}}
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

{{- define "ai-models.tlsVolume" -}}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end -}}

{{- define "ai-models.trustVolume" -}}
- name: trust
  configMap:
    name: ai-models-trust
{{- end -}}

{{- define "ai-models.tokenVolume" -}}
- name: dmcr-token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken:
          audience: dmcr
          expirationSeconds: 3600
          path: dmcr-token
{{- end -}}

{{- define "ai-models.tmpVolume" -}}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end -}}

{{/* Annotations of a hook's object that goes when the hook succeeded; argument: list events weight. */}}
{{- define "ai-models.hook" -}}
helm.sh/hook: {{ index . 0 }}
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
