# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other files that scripts/control-plane sources
# Sourced: Kubeflow Trainer and JobSet, in place of training-operator.

apply_trainer() {
  "$KUBECTL" create namespace kubeflow-system --dry-run=client -o yaml | apply -
  apply "$BIN/trainer-$TRAINER_VERSION.yaml"
  webhook_secret kubeflow-system kubeflow-trainer-webhook-cert
  endpoints kubeflow-system
  apply "$BIN/jobset-$JOBSET_VERSION.yaml"
  webhook_secret jobset-system jobset-webhook-server-cert
  endpoints jobset-system
}

# token_kubeconfig NAME NAMESPACE ACCOUNT: a name too long for a certificate's subject needs a token
token_kubeconfig() {
  "$KUBECTL" create token "$3" -n "$2" --duration=720h >"$pki/$1.token"
  jq --rawfile token "$pki/$1.token" '.users[0].user = {token: $token}' "$pki/admin.kubeconfig" >"$pki/$1.kubeconfig"
}

start_trainer() {
  token_kubeconfig jobset jobset-system jobset-controller-manager
  token_kubeconfig trainer kubeflow-system kubeflow-trainer-controller-manager
  start jobset KUBECONFIG="$pki/jobset.kubeconfig" "$BIN/jobset-$JOBSET_VERSION" --config="$config/jobset.yaml" \
    --metrics-bind-address=127.0.0.1:8094 --health-probe-bind-address=127.0.0.1:8095 --leader-elect=false
  start trainer KUBECONFIG="$pki/trainer.kubeconfig" "$BIN/trainer-$TRAINER_VERSION" --config="$config/trainer.yaml"
}

wait_for_trainer() {
  wait_for 90 jobset url_ok http://127.0.0.1:8095/readyz
  wait_for 90 trainer url_ok http://127.0.0.1:8096/readyz
  wait_for 60 "trainer's webhook" apply "$config/runtime.yaml"
}
