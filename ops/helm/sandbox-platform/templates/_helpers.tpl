{{- define "platform.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Labels of one part. Takes a list of the root and the part's name. */ -}}
{{- define "platform.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "platform.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The settings that are not secret, by name: the ConfigMap, of which the migration job has a copy. */ -}}
{{- define "platform.settings" -}}
{{- $settings := dict
  "PLATFORM_URL" .Values.url
  "PLATFORM_BASE_DOMAIN" .Values.baseDomain
  "PLATFORM_API_HOST" "0.0.0.0"
  "PLATFORM_GATEWAY_HOST" "0.0.0.0"
  "PLATFORM_GATEWAY_PUBLIC_PORT" "443"
  "TEMPORAL_ADDRESS" .Values.temporal.address
  "TEMPORAL_NAMESPACE" .Values.temporal.namespace
-}}
{{- with .Values.worker.deployment }}{{ $_ := set $settings "PLATFORM_WORKER_DEPLOYMENT" . }}{{ end }}
{{- with .Values.temporal.tls }}
{{- if .enabled }}{{ $_ := set $settings "TEMPORAL_TLS" "1" }}{{ end }}
{{- with .serverName }}{{ $_ := set $settings "TEMPORAL_TLS_SERVER_NAME" . }}{{ end }}
{{- if .caSecret }}{{ $_ := set $settings "TEMPORAL_TLS_CA_FILE" "/secrets/temporal-ca/ca.crt" }}{{ end }}
{{- if .clientSecret }}
{{- $_ := set $settings "TEMPORAL_TLS_CERT_FILE" "/secrets/temporal-client/tls.crt" }}
{{- $_ := set $settings "TEMPORAL_TLS_KEY_FILE" "/secrets/temporal-client/tls.key" }}
{{- end }}
{{- end }}
{{- with .Values.registry }}
{{- with .address }}{{ $_ := set $settings "PLATFORM_REGISTRY" . }}{{ end }}
{{- with .username }}{{ $_ := set $settings "PLATFORM_REGISTRY_USERNAME" . }}{{ end }}
{{- if .passwordSecret }}{{ $_ := set $settings "PLATFORM_REGISTRY_PASSWORD_FILE" "/secrets/registry/password" }}{{ end }}
{{- if .caSecret }}{{ $_ := set $settings "PLATFORM_REGISTRY_CA_FILE" "/secrets/registry-ca/ca.crt" }}{{ end }}
{{- end }}
{{- if .Values.metrics.enabled }}
{{- $_ := set $settings "PLATFORM_METRICS_HOST" "0.0.0.0" }}
{{- range list "API" "GATEWAY" "WORKER" "HOST" }}
{{- $_ := set $settings (printf "PLATFORM_%s_METRICS_PORT" .) ($.Values.metrics.port | toString) }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}{{ $_ := set $settings $name ($value | toString) }}{{ end }}
{{- toYaml $settings }}
{{- end }}

{{- /* The sources of a container's settings. Takes a list of the root and the name of the ConfigMap. */ -}}
{{- define "platform.environment" -}}
{{- $root := index . 0 -}}
envFrom:
  - configMapRef: { name: {{ index . 1 }} }
  - secretRef: { name: {{ $root.Values.secret }} }
{{- end }}

{{- define "platform.apiKey" -}}
{{- with .Values.temporal.apiKeySecret }}
{{- if .name }}
- name: TEMPORAL_API_KEY
  valueFrom: { secretKeyRef: { name: {{ .name }}, key: {{ .key }} } }
{{- end }}
{{- end }}
{{- end }}

{{- define "platform.secretMounts" -}}
{{- range include "platform.secretFiles" . | fromYamlArray }}
- { name: {{ .name }}, mountPath: {{ printf "/secrets/%s" .name }}, readOnly: true }
{{- end }}
{{- end }}

{{- define "platform.secretVolumes" -}}
{{- range include "platform.secretFiles" . | fromYamlArray }}
- name: {{ .name }}
  secret: { secretName: {{ .secret }}, defaultMode: 288 }
{{- end }}
{{- end }}

{{- define "platform.secretFiles" -}}
{{- $files := list }}
{{- with .Values.temporal.tls.caSecret }}{{ $files = append $files (dict "name" "temporal-ca" "secret" .) }}{{ end }}
{{- with .Values.temporal.tls.clientSecret }}{{ $files = append $files (dict "name" "temporal-client" "secret" .) }}{{ end }}
{{- with .Values.registry.passwordSecret }}{{ $files = append $files (dict "name" "registry" "secret" .) }}{{ end }}
{{- with .Values.registry.caSecret }}{{ $files = append $files (dict "name" "registry-ca" "secret" .) }}{{ end }}
{{- toYaml $files }}
{{- end }}

{{- /* The common part of the pods of API, gateway, worker and migrations. */ -}}
{{- define "platform.pod" -}}
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "platform.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- define "platform.scratchMounts" -}}
- { name: scratch, mountPath: /data, subPath: data }
- { name: scratch, mountPath: /cache, subPath: cache }
- { name: scratch, mountPath: /tmp, subPath: tmp }
{{- end }}

{{- /* A process without a public port is ready when its metrics can be read, which is the last step of its start. */ -}}
{{- define "platform.metricsProbes" -}}
{{- if .Values.metrics.enabled -}}
startupProbe:
  tcpSocket: { port: metrics }
  periodSeconds: 2
  failureThreshold: 90
readinessProbe:
  tcpSocket: { port: metrics }
{{- end }}
{{- end }}

{{- /* The join token of gateways and APIs, for sandboxes on other hosts. */ -}}
{{- define "platform.lastHopEnvironment" -}}
{{- if .Values.lastHop.gatewayTokenSecret -}}
- { name: PLATFORM_LAST_HOP_GATEWAY_TOKEN_FILE, value: /secrets/last-hop/token }
{{- end }}
{{- end }}
{{- define "platform.lastHopMounts" -}}
{{- if .Values.lastHop.gatewayTokenSecret -}}
- { name: last-hop, mountPath: /secrets/last-hop, readOnly: true }
{{- end }}
{{- end }}
{{- define "platform.lastHopVolumes" -}}
{{- with .Values.lastHop.gatewayTokenSecret -}}
- name: last-hop
  secret: { secretName: {{ . }}, defaultMode: 288 }
{{- end }}
{{- end }}

{{- /*
Limits the account of a helper to pods of its own node. RBAC cannot do this, so without the policy a compromised node could
change the status of pods of all nodes. Takes a list of the root and the name of the helper's ServiceAccount.
*/ -}}
{{- define "platform.ownNodePolicy" -}}
{{- $root := index . 0 -}}
{{- $account := index . 1 -}}
{{- $name := printf "%s-%s-own-node" $root.Release.Namespace $account -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $name }}
  labels: {{ include "platform.labels" $root | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - { apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods, "pods/*"] }
  matchConditions:
    - name: account
      expression: request.userInfo.username == "system:serviceaccount:{{ $root.Release.Namespace }}:{{ $account }}"
  variables:
    # The kubelet gives each pod a token with the name of its node. A token without a node may change nothing.
    - name: nodeOfToken
      expression: request.userInfo.extra[?"authentication.kubernetes.io/node-name"][0].orValue("")
    - name: nodeOfPod
      expression: 'oldObject == null ? "" : oldObject.spec.?nodeName.orValue("")'
  validations:
    - expression: variables.nodeOfToken != "" && variables.nodeOfToken == variables.nodeOfPod
      message: this account may change only pods of its own node
      reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ $name }}
  labels: {{ include "platform.labels" $root | nindent 4 }}
spec:
  policyName: {{ $name }}
  validationActions: [Deny]
{{- end }}

{{- /*
A Deployment and its disruption budget. Takes a dict of root, name, script, port (or none), probes, mounts, volumes, environment;
version, the tag of its image, if several versions run; serviceAccount, if it calls the API server; sidecar, another container;
isSuccessive, if only one pod is active and the next one waits for its end.
*/ -}}
{{- define "platform.deployment" -}}
{{- $root := .root -}}
{{- $values := index $root.Values .name -}}
{{- $fullName := printf "%s-%s" $root.Release.Name .name -}}
{{- $image := include "platform.image" $root -}}
{{- $selector := include "platform.selector" (list $root .name) | fromYaml -}}
{{- with .version -}}
{{- $fullName = printf "%s-%s" $fullName (regexReplaceAll "[^a-z0-9]+" (lower .) "-" | trunc 30 | trimAll "-") -}}
{{- $image = printf "%s:%s" $root.Values.image.repository . -}}
{{- $_ := set $selector "sandbox-platform/version" . -}}
{{- end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $fullName }}
  labels:
    {{- include "platform.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  replicas: {{ $values.replicas }}
  {{- if .isSuccessive }}
  # A new pod waits for the end of the active one.
  minReadySeconds: 10
  {{- else }}
  # A new pod is ready before an old one ends.
  {{- end }}
  strategy: { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }
  selector:
    matchLabels: {{ toYaml $selector | nindent 6 }}
  template:
    metadata:
      labels: {{ toYaml $selector | nindent 8 }}
      annotations:
        # A change of the settings replaces the pods.
        sandbox-platform/settings: {{ include "platform.settings" $root | sha256sum }}
        {{- with $root.Values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec:
      {{- include "platform.pod" $root | nindent 6 }}
      {{- with .serviceAccount }}
      serviceAccountName: {{ . }}
      {{- else }}
      automountServiceAccountToken: false
      {{- end }}
      # API and gateway finish running requests; workers return the tasks that they took.
      terminationGracePeriodSeconds: 45
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: { matchLabels: {{ toJson $selector }} }
      containers:
        - name: {{ .name }}
          image: {{ $image }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: [{{ .script }}]
          {{- include "platform.environment" (list $root (printf "%s-settings" $root.Release.Name)) | nindent 10 }}
          env:
            - { name: HOME, value: /tmp }
            {{- include "platform.apiKey" $root | nindent 12 }}
            {{- with .environment }}{{ . | nindent 12 }}{{ end }}
          {{- if or .port $root.Values.metrics.enabled }}
          ports:
            {{- with .port }}
            - { name: http, containerPort: {{ . }} }
            {{- end }}
            {{- if $root.Values.metrics.enabled }}
            - { name: metrics, containerPort: {{ $root.Values.metrics.port }} }
            {{- end }}
          {{- end }}
          {{- with .probes }}{{ . | nindent 10 }}{{ end }}
          {{- if .port }}
          # Nodes and load balancers learn of the end later than the pod itself; until then it accepts connections.
          lifecycle: { preStop: { exec: { command: [sleep, "5"] } } }
          {{- end }}
          resources: {{ toYaml $values.resources | nindent 12 }}
          {{- include "platform.containerSecurity" $root | nindent 10 }}
          volumeMounts:
            {{- include "platform.scratchMounts" $root | nindent 12 }}
            {{- include "platform.secretMounts" $root | nindent 12 }}
            {{- with .mounts }}{{ . | nindent 12 }}{{ end }}
            {{- with $root.Values.extraVolumeMounts }}{{ toYaml . | nindent 12 }}{{ end }}
        {{- with .sidecar }}{{ . | nindent 8 }}{{ end }}
      volumes:
        - { name: scratch, emptyDir: {} }
        {{- include "platform.secretVolumes" $root | nindent 8 }}
        {{- with .volumes }}{{ . | nindent 8 }}{{ end }}
        {{- with $root.Values.extraVolumes }}{{ toYaml . | nindent 8 }}{{ end }}
{{- /* A disruption budget for a single replica would prevent the drain of its node. */ -}}
{{- if gt (int $values.replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $fullName }}
  labels: {{ include "platform.labels" $root | nindent 4 }}
spec:
  minAvailable: {{ $values.minAvailable }}
  selector:
    matchLabels: {{ toYaml $selector | nindent 6 }}
{{- end }}
{{- end }}
