"""`check`, `render`, `schema`, `catalog check`, `export`: what a user sees of a form before anything runs."""

from __future__ import annotations

import ast

import pytest
import yaml

from tests.unit.cli.conftest import Command


def test_a_right_form_is_ok(command: Command) -> None:
    done = command.anew("check", command.form())
    assert (done.code, done.out) == (0, "task.yaml: ok\n")


def test_all_errors_of_all_files_are_reported_at_once(command: Command) -> None:
    good = command.form(name="good.yaml")
    bad = command.form(extra="env: {KUBERNETES_X: '1'}\npriority: urgent\nworkerz: 3\n", name="bad.yaml")
    done = command("check", "--json", good, bad)
    assert done.code == 2
    first, second = done.data
    assert (first["file"], first["ok"], first["errors"]) == ("good.yaml", True, [])
    assert second["ok"] is False
    assert {"env.KUBERNETES_X", "priority", "workerz"} == {error["path"] for error in second["errors"]}
    assert all(error["message"] for error in second["errors"])
    assert isinstance(second["warnings"], list)


def test_a_template_is_no_error_for_check(command: Command) -> None:
    done = command("check", "--json", command.form(extra='priority: "{{ params.priority }}"\n'))
    assert (done.code, done.data[0]["errors"]) == (0, [])


def test_a_missing_file_is_named_without_a_traceback(command: Command) -> None:
    done = command("check", "nowhere.yaml")
    assert done.code == 2
    assert "nowhere.yaml" in done.out + done.err
    assert "Traceback" not in done.out + done.err


def test_render_masks_hidden_values_unless_revealed(command: Command) -> None:
    form = command.form(extra="env: {TOKEN: {value: canary-7f3a, hidden: true}}\n")
    masked = command("render", form)
    assert masked.code == 0, masked.err
    assert "canary-7f3a" not in masked.out
    kinds = [document["kind"] for document in yaml.safe_load_all(masked.out) if document]
    assert "PyTorchJob" in kinds
    revealed = command("render", form, "--reveal")
    (secret,) = [document for document in yaml.safe_load_all(revealed.out) if document["kind"] == "Secret"]
    assert secret["stringData"] == {"TOKEN": "canary-7f3a"}
    assert revealed.out.replace("canary-7f3a", "'***'") == masked.out


def test_local_rendering_names_hidden_values_and_shows_them_when_asked(command: Command) -> None:
    form = command.form(extra="env: {TOKEN: {value: canary-7f3a, hidden: true}}\n")
    masked = command("render", form, "--backend", "local")
    assert "canary-7f3a" not in masked.out
    assert yaml.safe_load(masked.out)["hidden_env"] == ["TOKEN"]
    revealed = command("render", form, "--backend", "local", "--reveal")
    assert yaml.safe_load(revealed.out)["hidden_env"] == {"TOKEN": "canary-7f3a"}


def test_render_shows_the_command_where_the_container_runs_it(command: Command) -> None:
    done = command("render", command.form("echo \"$HOME\" 'x' $(date +%F)"))
    (job,) = yaml.safe_load_all(done.out)
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    assert container["args"] == ["bash", "-c", "echo \"$HOME\" 'x' $(date +%F)\n"]


def test_render_prints_the_same_twice(command: Command) -> None:
    form = command.form(workers=2)
    assert command("render", form).out == command("render", form).out != ""


def test_render_of_an_unknown_backend_names_the_known_ones(command: Command) -> None:
    done = command("render", command.form(), "--backend", "slurm")
    assert done.code == 2
    assert "kubernetes" in done.err


def test_local_rendering_shows_what_would_be_started(command: Command) -> None:
    done = command("render", command.form("echo $RANK"), "--backend", "local")
    assert done.code == 0, done.err
    assert "echo $RANK" in done.out


def test_schema_knows_both_kinds(command: Command) -> None:
    done = command("schema")
    assert done.code == 0
    assert {"PyTorchJob", "RayJob"} <= set(done.data.get("$defs", {}))


def test_a_wrong_catalog_is_reported_with_paths(command: Command) -> None:
    (command.folder / "catalog.yaml").write_text("instancez: {}\n", encoding="utf-8")
    done = command("catalog", "check", "catalog.yaml", "--json")
    assert done.code == 2
    assert done.data[0]["errors"][0]["path"] == "instancez"
    assert "instances" in done.data[0]["errors"][0]["message"]


def test_check_json_is_a_list_also_when_the_catalog_is_what_is_wrong(command: Command) -> None:
    (command.folder / "catalog.yaml").write_text("instancez: {}\n", encoding="utf-8")
    done = command("check", command.form(), "--catalog", "catalog.yaml", "--json")
    assert done.code == 2
    (item,) = done.data
    assert (item["file"], item["ok"]) == ("catalog.yaml", False)
    assert [problem["path"] for problem in item["errors"]] == ["instancez"]
    told = command("check", command.form(), "--catalog", "catalog.yaml")
    assert (told.code, told.out) == (2, "")
    assert "instancez" in told.err


def test_a_form_a_catalog_and_a_manifest_are_told_from_each_other(command: Command) -> None:
    assert "holds a task form and no manifest" in command("import", command.form()).err
    (command.folder / "job.yaml").write_text("{apiVersion: v1, kind: PyTorchJob, spec: {}}", encoding="utf-8")
    assert "1 to mend\n  error: form: this is a Kubernetes manifest and no task;" in command("check", "job.yaml").out
    (command.folder / "catalog.yaml").write_text("instances: {small: {resources: {cpu: 1}}}\n", encoding="utf-8")
    for arguments in (("check",), ("run",), ("render",)):
        done = command(*arguments, "catalog.yaml")
        assert done.code == 2
        said = done.out + done.err
        assert said.count("this is a catalog and no task; check it with `siflow-provider catalog check`") == 1
        assert "unknown key" not in said
    (problem,) = command("catalog", "check", command.form(), "--json").data[0]["errors"]
    assert problem["message"] == "this is a task and no catalog; check it with `siflow-provider check`"


def test_a_form_exported_as_yaml_reads_back_as_the_same_form(command: Command) -> None:
    first = command("export", command.form("echo one\n  echo two", workers=2))
    assert first.code == 0, first.err
    (command.folder / "again.yaml").write_text(first.out, encoding="utf-8")
    assert command("export", "again.yaml").out == first.out


def test_a_form_exported_as_a_dag_is_python_without_the_hidden_value(command: Command) -> None:
    form = command.form("echo one\n  echo two", extra="env: {TOKEN: {value: canary-7f3a, hidden: true}}\n")
    done = command("export", form, "--dag", "--dag-id", "nightly")
    assert done.code == 0, done.err
    assert "canary-7f3a" not in done.out
    calls = [node for node in ast.walk(ast.parse(done.out)) if isinstance(node, ast.Call)]
    assert "PyTorchJobOperator" in {call.func.id for call in calls if isinstance(call.func, ast.Name)}


def test_text_that_kubectl_would_take_for_a_number_is_quoted(command: Command) -> None:
    done = command("render", command.form(extra="env: {LR: 1e-4, PORT: 0o17}\n"))
    assert "value: '1e-4'" in done.out
    assert "value: '0o17'" in done.out


@pytest.mark.runs
def test_the_forms_of_a_dag_file_come_back_as_yaml(command: Command) -> None:
    form = command.form(workers=2, extra="env: {TOKEN: {value: canary-7f3a, hidden: true}}\n")
    dag = command("export", form, "--dag", "--dag-id", "nightly")
    (command.folder / "nightly.py").write_text(dag.out, encoding="utf-8")
    done = command("import", "nightly.py")
    assert done.code == 0, done.err
    assert "canary-7f3a" not in done.out
    (document,) = yaml.safe_load_all(done.out)
    assert (document["kind"], document["workers"]) == ("PyTorchJob", 2)
    assert command("import", "nightly.py", "--task", "other").code == 2


def test_a_file_that_is_neither_manifest_nor_dag_file_is_refused(command: Command) -> None:
    (command.folder / "notes.txt").write_text("hello", encoding="utf-8")
    done = command("import", "notes.txt")
    assert done.code == 2
    assert "DAG file" in done.err
    assert command("import", "nowhere.yaml").code == 2


MANIFEST = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, annotations: {day: 2026-01-02}}
spec:
  runPolicy: {backoffLimit: 3}
  pytorchReplicaSpecs:
    Master:
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example/bert:1
            command: [python, train.py]
            env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}]
            resources: {limits: {cpu: 1, memory: 1Gi}}
---
apiVersion: v1
kind: Secret
metadata: {name: hub}
stringData: {token: canary-7f3a}
---
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: tune}
spec:
  entrypoint: python tune.py
  shutdownAfterJobFinishes: true
  rayClusterSpec:
    headGroupSpec:
      template:
        spec:
          containers:
          - {name: ray, image: "registry.example/ray:1", resources: {limits: {cpu: 1, memory: 1Gi}}}
"""


def test_the_jobs_of_a_manifest_become_forms_and_what_was_lost_is_told(command: Command) -> None:
    (command.folder / "jobs.yaml").write_text(MANIFEST, encoding="utf-8")
    done = command.anew("import", "jobs.yaml")
    assert done.code == 0, done.err
    forms = list(yaml.safe_load_all(done.out))
    assert [(form["kind"], form["name_prefix"]) for form in forms] == [("PyTorchJob", "bert"), ("RayJob", "tune")]
    assert forms[0]["env"] == {"TOKEN": {"value": "{{ var.value.token }}", "hidden": True}}
    assert forms[0]["kubernetes"]["annotations"] == {"day": "2026-01-02"}
    told = done.err.splitlines()
    assert len(told) == 3
    assert told[0].startswith("PyTorchJob bert: spec.runPolicy.backoffLimit: ")
    assert told[2].startswith("Secret/hub: ")
    assert "canary-7f3a" not in done.out + done.err
    one = command("import", "jobs.yaml", "--task", "tune")
    (command.folder / "tune.yaml").write_text(one.out, encoding="utf-8")
    assert command("check", "tune.yaml").out == "tune.yaml: ok\n"


def test_a_manifest_without_a_job_says_what_it_holds(command: Command) -> None:
    (command.folder / "other.yaml").write_text("kind: Service\n---\nkind: Deployment\n", encoding="utf-8")
    done = command("import", "other.yaml")
    assert (done.code, done.out) == (2, "")
    assert "Deployment, Service" in done.err
    (command.folder / "twice.yaml").write_text("kind: Service\nkind: Service\n", encoding="utf-8")
    assert "given twice" in command("import", "twice.yaml").err
    (command.folder / "wrong.yaml").write_text("kind: {\n", encoding="utf-8")
    wrong = command("import", "wrong.yaml")
    assert (wrong.code, "not valid YAML" in wrong.err, "Traceback" in wrong.err) == (2, True, False)


def test_an_exported_form_keeps_a_hidden_template_and_asks_a_variable_for_a_hidden_literal(command: Command) -> None:
    env = "{A: {value: '{{ conn.hf.password }}', hidden: true}, B: {value: canary-7f3a, hidden: true}, C: plain}"
    form = command.form(extra=f"env: {env}\n")
    expected = {
        "A": {"value": "{{ conn.hf.password }}", "hidden": True},
        "B": {"value": "{{ var.value.b }}", "hidden": True},
        "C": "plain",
    }
    done = command.anew("export", form)
    assert yaml.safe_load(done.out)["env"] == expected
    assert done.err == "env.B: the hidden value is not written; it is read from the Variable 'b'\n"
    dag = command("export", form, "--dag", "--dag-id", "nightly")
    values = [ast.literal_eval(word.value) for word in _keywords(dag.out) if word.arg == "env"]
    assert values == [expected]
    (command.folder / "again.yaml").write_text(done.out, encoding="utf-8")
    assert command("export", "again.yaml").out == done.out
    assert command("run", "again.yaml").code == 2


def test_a_hidden_template_with_text_around_it_is_not_written(command: Command) -> None:
    form = command.form(extra="env: {URL: {value: 'canary-7f3a@{{ params.host }}', hidden: true}}\n")
    assert "canary-7f3a" not in command("export", form).out


@pytest.mark.parametrize(
    ("options", "prefix", "dag_id"),
    [
        ((), "", "my-task"),
        ((), "name_prefix: bert\n", "bert"),
        ((), 'name_prefix: "{{ params.name }}"\n', "my-task"),
        (("--dag-id", "team.bert_1"), "", "team.bert_1"),
    ],
)
def test_an_exported_dag_has_an_id_that_airflow_takes(
    command: Command, options: tuple[str, ...], prefix: str, dag_id: str
) -> None:
    done = command("export", command.form(extra=prefix, name="my task.yaml"), "--dag", *options)
    assert done.code == 0, done.err
    assert [ast.literal_eval(word.value) for word in _keywords(done.out) if word.arg == "dag_id"] == [dag_id]


def test_a_dag_id_that_airflow_refuses_is_refused_with_the_nearest_right_one(command: Command) -> None:
    done = command("export", command.form(), "--dag", "--dag-id", "a b")
    assert done.code == 2
    assert "'a b'" in done.err
    assert "'a-b'" in done.err


def _keywords(source: str) -> list[ast.keyword]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.keyword)]


def test_render_warns_on_stderr_and_prints_nothing_but_documents(command: Command) -> None:
    extra = "fault_tolerance: {retry_on: [code]}\nssh: true\n"
    cluster = command("render", command.form(extra=extra))
    assert "warning: fault_tolerance.retry_on" in cluster.err
    assert "warning: no queue is known for this task" in cluster.err
    assert {document["kind"] for document in yaml.safe_load_all(cluster.out)} == {"PyTorchJob", "ConfigMap"}
    local = command("render", command.form(extra=extra), "--backend", "local")
    assert "warning: image: registry.example/ai/pytorch:2.9 is ignored" in local.err
    assert "warning: ssh: hostfiles only" in local.err
